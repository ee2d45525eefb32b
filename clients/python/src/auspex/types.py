"""All records: those of responses as classes, those of requests as plain dictionaries."""

from ._generated.inputs import *
from ._generated.records import *
