"""Generated cases for what the embedded model was found to be weak at.

Every module has one function `make(draw, held)`: cases from its templates, from other templates where `held` is true.
What is held out is written to `held-out/` by `training/generate.py` and never trained on.
"""

from . import actions, forms, insults, instructions, irony, languages, numbers, opposites, options, places, roles, scales

# Each module and how often training draws from it.
MODULES = {
    "numbers": (numbers, 5), "scales": (scales, 3), "actions": (actions, 2), "places": (places, 2), "roles": (roles, 3),
    "languages": (languages, 3), "insults": (insults, 2), "irony": (irony, 1), "options": (options, 3), "opposites": (opposites, 3),
    "forms": (forms, 1), "instructions": (instructions, 1),
}


def make(draw, name, held=False):
    """Some cases of one module: those of one call belong together, like a case and its twin."""
    return MODULES[name][0].make(draw, held)


def drawn(draw):
    """Some cases of any module, with its name."""
    name = draw.choices(list(MODULES), [weight for _, weight in MODULES.values()])[0]
    return name, make(draw, name)
