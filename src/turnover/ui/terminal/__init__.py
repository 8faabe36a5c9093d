"""The command line: one thin file a command, which parses, calls one library function and prints.

Owns: words on a terminal. Must not know: how anything is computed.
"""
