"""Operations: actions to take when answers satisfy a condition.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .._call import UNSET, Call, Unset
from .._caller import Caller
from .._paging import Pager
from .records import (
    ActionType,
    ConditionCheck,
    ConditionPlace,
    Rule,
    RuleFiring,
    RuleFiringList,
    RuleList,
    RuleMode,
    RuleReplay,
    RuleReplayRun,
    RuleTest,
)


class Rules(Caller):
    """Actions to take when answers satisfy a condition."""

    def list_rules(self) -> Pager[RuleList, Rule]:
        """List the rules.

        In order of creation.
        """
        return self._pages(Call[RuleList]("GET", ("v1", "rules"), {200: RuleList}), "rules")

    def create_rule(
        self,
        *,
        when: str,
        action_type: ActionType,
        action_config: Mapping[str, Any],
        name: str | Unset | None = UNSET,
        enabled: bool | Unset | None = UNSET,
        mode: RuleMode | Unset | None = UNSET,
        cooldown_seconds: int | Unset | None = UNSET,
    ) -> Rule:
        """Create a rule.

        The condition is checked against the account's signals; an error names the column. The rule is evaluated after
        every analysis and every verdict. Without a cooldown it fires when the condition becomes true for an object;
        with one it fires at most once in that time, and again after it while the condition stays true.

        A rule that names a disabled signal is suspended and keeps its state until the signal is enabled again. If a
        signal is deleted or its type changes, the state of the rules that name it is reset.

        Args:
            name: A name of your choice, up to 200 characters; if left out, the condition.
            when: Comparisons of signals and facts, joined by `and`, `or` and commas, negated by `not`, grouped by
                parentheses.
            action_type: The action.
            action_config: The settings of the action. `email`: `to` (an address; required) and `subject`. `slack`:
                `webhook_url` (of an incoming webhook; required). `webhook`: `endpoint_id` (of a registered endpoint
                that receives `rule.triggered`; required). `review`: `queue` (required) and `signals`. Fields of other
                action types are ignored.
            enabled: Whether it is evaluated; true if left out.
            cooldown_seconds: The cooldown in seconds; 0 if left out.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            ConflictError: The account has 200 rules.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[Rule](
                "POST",
                ("v1", "rules"),
                {201: Rule},
                body={
                    "name": name,
                    "when": when,
                    "action_type": action_type,
                    "action_config": action_config,
                    "enabled": enabled,
                    "mode": mode,
                    "cooldown_seconds": cooldown_seconds,
                },
            ),
        )

    def get_rule(self, rule_id: str) -> Rule:
        """Read a rule.

        Its condition, its action and whether it is enabled.

        Args:
            rule_id: The rule's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such rule.
        """
        return self._call(Call[Rule]("GET", ("v1", "rules", rule_id), {200: Rule}))

    def delete_rule(self, rule_id: str) -> None:
        """Delete a rule. Its firings stay listed.

        Actions that are already queued are still carried out.

        Args:
            rule_id: The rule's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such rule.
        """
        self._call(Call[None]("DELETE", ("v1", "rules", rule_id), {}))

    def update_rule(
        self,
        rule_id: str,
        *,
        name: str | Unset | None = UNSET,
        when: str | Unset | None = UNSET,
        action_type: ActionType | Unset | None = UNSET,
        action_config: Mapping[str, Any] | Unset | None = UNSET,
        enabled: bool | Unset | None = UNSET,
        mode: RuleMode | Unset | None = UNSET,
        cooldown_seconds: int | Unset | None = UNSET,
    ) -> Rule:
        """Change a rule.

        Fields left out keep their values; the resulting rule is validated as a whole. A new condition resets the rule's
        state for every object; any other change keeps it.

        Args:
            rule_id: The rule's id.
            name: A name of your choice, up to 200 characters. If it is the condition so far, it follows the
                condition.
            when: The condition. A new one resets the rule's state for every object.
            action_config: The settings of the action, as for a new rule; they replace all earlier ones.
            enabled: Whether it is evaluated.
            cooldown_seconds: The cooldown in seconds.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such rule.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[Rule](
                "PATCH",
                ("v1", "rules", rule_id),
                {200: Rule},
                body={
                    "name": name,
                    "when": when,
                    "action_type": action_type,
                    "action_config": action_config,
                    "enabled": enabled,
                    "mode": mode,
                    "cooldown_seconds": cooldown_seconds,
                },
            ),
        )

    def test_rule(
        self,
        *,
        action_type: ActionType,
        action_config: Mapping[str, Any],
        name: str | Unset | None = UNSET,
    ) -> RuleTest:
        """Test the action of a rule.

        Sends a mail, a chat message or a delivery that says that it is a test, at once, and answers what the receiver
        said. Whether a rule is saved does not matter. A mail goes to nobody to whom a rule could not write, and a
        recipient who has to agree first is asked as when a rule fires. A webhook gets `endpoint.test`, which is retried
        like any delivery; the answer is about its first attempt. At most 20 an hour for an account, which count like
        the messages of rules.

        Args:
            name: What the message calls the rule, up to 200 characters.
            action_type: The action. A `review` sends nothing, so it cannot be tested.
            action_config: The settings of the action, as for a new rule.

        Raises:
            BadRequestError: The action is invalid, or it is a review, which sends nothing.
            ConflictError: The webhook endpoint is disabled.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[RuleTest](
                "POST",
                ("v1", "rules", "test"),
                {200: RuleTest},
                body={"name": name, "action_type": action_type, "action_config": action_config},
            ),
        )

    def replay_rule(
        self,
        *,
        when: str,
        cooldown_seconds: int | Unset | None = UNSET,
        from_: datetime | str | Unset | None = UNSET,
        to: datetime | str | Unset | None = UNSET,
    ) -> RuleReplay | RuleReplayRun:
        """Replay a rule over the past of answers.

        Says how often a rule would have fired, for which objects and on which days, and which of the enabled rules
        would have fired for the same ones. No model runs and nothing is charged. Above 200,000 analyses
        (`AUSPEX_REPLAY_INLINE`) it runs in the background.

        Args:
            when: The condition, as of a rule.
            cooldown_seconds: The cooldown in seconds; 0 if left out.

        Raises:
            BadRequestError: The condition is invalid, or the time range is.
            ConflictError: A replay of the account is running in the background.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[RuleReplay | RuleReplayRun](
                "POST",
                ("v1", "rules", "replay"),
                {200: RuleReplay, 202: RuleReplayRun},
                body={"when": when, "cooldown_seconds": cooldown_seconds, "from": from_, "to": to},
            ),
        )

    def get_rule_replay(self, replay_id: str) -> RuleReplayRun:
        """Read a replay that runs in the background.

        Once its status is `done`, it has the fields of a replay. It is kept for a week.

        Args:
            replay_id: The replay's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such replay.
        """
        return self._call(Call[RuleReplayRun]("GET", ("v1", "rules", "replays", replay_id), {200: RuleReplayRun}))

    def list_rule_firings(
        self,
        *,
        rule_id: str | None = None,
        object_id: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Pager[RuleFiringList, RuleFiring]:
        """List firings, newest first. They are kept for 90 days.

        Each lists the values that satisfied the condition and the outcome of the action.

        Args:
            rule_id: Only firings of this rule.
            object_id: Only firings about this object.
            limit: The maximum number; 50 if left out.
            cursor: `next_cursor` of the previous page; the other parameters must stay the same.

        Raises:
            BadRequestError: A parameter is out of range or not a UUID, or the cursor belongs to another list.
        """
        return self._pages(
            Call[RuleFiringList](
                "GET",
                ("v1", "rule_firings"),
                {200: RuleFiringList},
                query={"rule_id": rule_id, "object_id": object_id, "limit": limit, "cursor": cursor},
            ),
            "firings",
        )

    def check_condition(self, *, when: str, for_: ConditionPlace | Unset | None = UNSET) -> ConditionCheck:
        """Check a condition.

        For editors: says what is wrong with a condition and where, which signals it names, and how many objects it is
        true for now. An invalid condition is no error of the request. For a query, whatever the list of objects would
        skip is an error.

        Args:
            when: The condition.

        Raises:
            BadRequestError: The body is malformed.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[ConditionCheck](
                "POST",
                ("v1", "conditions", "check"),
                {200: ConditionCheck},
                body={"when": when, "for": for_},
                repeatable=True,
            ),
        )
