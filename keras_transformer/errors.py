class UserError(ValueError):
    """Something that the user can mend: an argument, an option, a file.

    Its message says what happened, what was expected and how to mend it. The recipes print it in
    one line and end with status 2; any other error is a defect and keeps its traceback.
    """


class TrainingStopped(SystemExit):
    """A signal ended a training, which can go on from the checkpoint that it wrote.

    Where nothing catches it the process ends, with the status 128 + the signal's number.
    """
