"""The first process of a worker pod: reaps what others leave behind, and ends at once when it is told to."""

import os
import signal

SIGNALS = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM}

signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
while signal.sigwait(SIGNALS) == signal.SIGCHLD:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass
