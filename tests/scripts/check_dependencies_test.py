"""What scripts/check-dependencies lets through and what it stops. Run by `make lint`."""

import importlib.machinery
import importlib.util
import pathlib
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check-dependencies"
LOADER = importlib.machinery.SourceFileLoader("check_dependencies", str(SCRIPT))
checker = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(checker)

RULES = {
    "licenses": {"allow": ["MIT", "Apache-2.0"], "exceptions": [{"crate": "excepted", "allow": ["MPL-2.0"]}]},
    "bans": {"deny": [{"crate": "openssl", "reason": "rustls does it"}]},
    "sources": {"allow-registry": ["https://registry"], "allow-git": []},
}


def package(**changes):
    usual = {"name": "a", "version": "1.0.0", "source": "registry+https://registry", "license": "MIT", "dependencies": []}
    return usual | changes


class Licences(unittest.TestCase):
    def test_expressions(self):
        allowed = {"MIT", "Apache-2.0"}
        for expression, expected in [
            ("MIT", True),
            ("GPL-3.0", False),
            ("GPL-3.0 OR MIT", True),
            ("GPL-3.0 OR MIT AND Apache-2.0", True),
            ("MIT AND GPL-3.0", False),
            ("(MIT OR GPL-3.0) AND Apache-2.0", True),
            ("(MIT OR Apache-2.0) AND GPL-3.0", False),
            ("Apache-2.0/MIT", True),
            ("GPL-3.0 / MIT", True),
            ("Apache-2.0 WITH LLVM-exception", False),
        ]:
            self.assertEqual(checker.licence_allowed(expression, allowed), expected, expression)

    def test_nonsense_is_no_licence(self):
        for expression in ["", "(MIT", "MIT)", "MIT MIT", "MIT AND", "OR"]:
            with self.assertRaises(ValueError, msg=expression):
                if checker.licence_allowed(expression, {"MIT"}) is False:
                    raise ValueError(expression)


class Packages(unittest.TestCase):
    def found(self, **changes):
        return list(checker.problems(RULES, [package(**changes)]))

    def test_a_good_one_passes(self):
        self.assertEqual(self.found(), [])
        self.assertEqual(self.found(source=None), [])
        self.assertEqual(self.found(name="excepted", license="MPL-2.0"), [])

    def test_each_rule_stops_its_own(self):
        self.assertIn("banned", self.found(name="openssl")[0])
        self.assertIn("git+https://elsewhere", self.found(source="git+https://elsewhere")[0])
        self.assertIn("GPL-3.0", self.found(license="GPL-3.0")[0])
        self.assertIn("MPL-2.0", self.found(license="MPL-2.0")[0])
        self.assertIn("GPL-3.0", self.found(name="excepted", license="GPL-3.0")[0])
        self.assertIn("None", self.found(license=None)[0])
        wildcard = {"name": "b", "req": "*", "path": None}
        self.assertIn("any version of b", self.found(source=None, dependencies=[wildcard])[0])


if __name__ == "__main__":
    unittest.main()
