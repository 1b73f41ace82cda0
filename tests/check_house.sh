#!/usr/bin/env bash
# Prints the rooms of src/ and the arrows between them; fails on circles: check_house.py says how.
exec "${PYTHON:-/usr/bin/python3}" "${0%.sh}.py" "$@"
