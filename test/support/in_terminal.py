"""Runs a command with a terminal as its standard streams, and prints its output.

in_terminal.py COMMAND ARGUMENT...
"""
import os
import pty
import sys

sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
