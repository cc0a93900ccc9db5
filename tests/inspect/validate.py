"""Checks that JSON files keep a definition of a JSON Schema.

validate.py SCHEMA DEFINITION FILE...   prints what is wrong with each, and exits with 1 if any is.
"""
import json
import sys

import jsonschema


def not_json(text):
    raise ValueError(f"{text} is not JSON")


with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
schema["$ref"] = "#/$defs/" + sys.argv[2]
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
wrong = False
for name in sys.argv[3:]:
    with open(name, encoding="utf-8") as file:
        graph = json.load(file, parse_constant=not_json)
    for error in validator.iter_errors(graph):
        path = "/".join(str(part) for part in error.absolute_path)
        print(f"{name}: /{path}: {error.message[:200]}")
        wrong = True
sys.exit(wrong)
