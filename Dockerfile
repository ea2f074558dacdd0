# The command on a CPU, from a wheel of this checkout:
#
#     docker build -t keras-transformer .
#     docker run --rm -i -v "$PWD/saved_models:/models:ro" keras-transformer \
#         translate --model /models/multi30k_en_de < text.en > text.de
#
# The user's cache (converted models, compiled programs) is kept with -v NAME:/home/user/.cache.
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE keras_transformer_command.py ./
COPY keras_transformer keras_transformer
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
RUN useradd --create-home --uid 1000 user && install -d -o user -g user /home/user/.cache
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[convert]"
USER 1000
WORKDIR /home/user
ENTRYPOINT ["keras-transformer"]
CMD ["--help"]
