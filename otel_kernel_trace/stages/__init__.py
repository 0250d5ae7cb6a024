"""Stages of compiling, running and measuring, and commands that run as such: spans that are no actions."""
