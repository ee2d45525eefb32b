"""Operations: labels, how good the answers are by them, and calibrations.

Generated from docs/openapi.json by `make clients`. Do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .._call import UNSET, Call, Unset
from .._caller import Caller
from .._paging import Pager
from .inputs import LabelCreate, TrialQueryInput
from .records import (
    Calibration,
    CalibrationSwitched,
    Label,
    LabelList,
    LabelSource,
    LabelValue,
    LabelsAccepted,
    Signal,
    SignalEscalation,
    SignalQuality,
    Trial,
    TrialEstimate,
    TrialList,
    TrialObjects,
    TrialStarted,
)


class Quality(Caller):
    """Labels, how good the answers are by them, and calibrations."""

    def put_label(self, object_id: str, signal: str, *, value: LabelValue, note: str | Unset | None = UNSET) -> Label:
        """Say what is true about a signal of an object.

        An author has one label about a signal of an object: a later one replaces it. Of several authors the latest
        counts. The label keeps what the service said at that time, so that the two can be compared.

        Args:
            object_id: The object's id.
            signal: The key of the signal.
            value: What is true: `noul` true or false; `choice` an option; `score` the index of a level.
            note: What else is worth knowing; at most 2,000 characters.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such object, or no such signal.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[Label](
                "PUT",
                ("v1", "objects", object_id, "labels", signal),
                {200: Label},
                body={"value": value, "note": note},
            ),
        )

    def list_labels(
        self,
        *,
        signal: str | None = None,
        object_id: str | None = None,
        source: LabelSource | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Pager[LabelList, Label]:
        """List labels, newest first.

        Labels outlive the events of their object; they are deleted with the object or with the signal.

        Args:
            signal: Only labels about this signal.
            object_id: Only labels about this object.
            source: Only labels that were given like this.
            limit: The maximum number; 50 if left out.
            cursor: `next_cursor` of the previous page; the filters must stay the same.

        Raises:
            BadRequestError: A parameter is out of range, or the cursor is of another list.
        """
        return self._pages(
            Call[LabelList](
                "GET",
                ("v1", "labels"),
                {200: LabelList},
                query={"signal": signal, "object_id": object_id, "source": source, "limit": limit, "cursor": cursor},
            ),
            "labels",
        )

    def create_labels(self, *, labels: Sequence[LabelCreate]) -> LabelsAccepted:
        """Say what is true about many objects.

        At most 1,000 labels. Those that are wrong are refused one by one, and the others are taken. Of several about
        the same signal of the same object the last is kept.

        Args:
            labels: 1 to 1,000 labels.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[LabelsAccepted](
                "POST",
                ("v1", "labels"),
                {200: LabelsAccepted},
                body={"labels": labels},
            ),
        )

    def delete_label(self, label_id: str) -> None:
        """Withdraw a label.

        The latest label that is left about the same signal of the object counts.

        Args:
            label_id: The label's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such label.
        """
        self._call(Call[None]("DELETE", ("v1", "labels", label_id), {}))

    def list_trials(self, key: str, *, limit: int | None = None, cursor: str | None = None) -> Pager[TrialList, Trial]:
        """List the trials of a signal, newest first.

        Without their figures, which each trial has by itself.

        Args:
            key: The signal's key.
            limit: The maximum number; 20 if left out.
            cursor: `next_cursor` of the previous page.

        Raises:
            BadRequestError: A parameter is out of range, or the cursor is of another list.
            NotFoundError: There is no such signal.
        """
        return self._pages(
            Call[TrialList](
                "GET",
                ("v1", "signals", key, "trials"),
                {200: TrialList},
                query={"limit": limit, "cursor": cursor},
            ),
            "trials",
        )

    def start_trial(
        self,
        key: str,
        *,
        over: TrialObjects | TrialQueryInput,
        instructions: Any | Unset = UNSET,
        criteria: Any | Unset = UNSET,
        limit: int | Unset | None = UNSET,
        dry_run: bool | Unset | None = UNSET,
    ) -> TrialEstimate | TrialStarted:
        """Try another wording of a signal.

        Both wordings are put to objects that are there, in one call of the model each, and nothing else changes: no
        answer, no rule and no webhook. The trial is charged like any analysis and runs after live work. With `dry_run`
        nothing is started.

        Args:
            key: The signal's key.
            instructions: The proposed instructions, as of a signal; the present ones if left out.
            criteria: The proposed criteria, as of a signal; the present ones if left out.
            over: Which objects it is put to.
            limit: At most so many objects; 100 if left out.
            dry_run: Whether to say only how many objects there are and what it would cost.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such signal.
            ConflictError: There are no such objects, or five trials are running.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[TrialEstimate | TrialStarted](
                "POST",
                ("v1", "signals", key, "trials"),
                {200: TrialEstimate, 202: TrialStarted},
                body={
                    "instructions": instructions,
                    "criteria": criteria,
                    "over": over,
                    "limit": limit,
                    "dry_run": dry_run,
                },
            ),
        )

    def get_trial(self, key: str, trial_id: str) -> Trial:
        """Read a trial, with its figures so far.

        Over labelled objects, `difference` says by how much the proposed wording is better, with a 95 % interval.

        Args:
            key: The signal's key.
            trial_id: The trial's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such trial.
        """
        return self._call(Call[Trial]("GET", ("v1", "signals", key, "trials", trial_id), {200: Trial}))

    def cancel_trial(self, key: str, trial_id: str) -> None:
        """Stop a trial.

        What it has found so far stays; one that has ended is left as it is.

        Args:
            key: The signal's key.
            trial_id: The trial's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such trial.
        """
        self._call(Call[None]("DELETE", ("v1", "signals", key, "trials", trial_id), {}))

    def adopt_trial(self, key: str, trial_id: str) -> Signal:
        """Adopt the wording of a trial.

        It becomes the signal's next version.

        Args:
            key: The signal's key.
            trial_id: The trial's id.

        Raises:
            BadRequestError: The id is not a UUID.
            NotFoundError: There is no such trial.
            ConflictError: The trial is not done.
        """
        return self._call(Call[Signal]("POST", ("v1", "signals", key, "trials", trial_id, "adopt"), {200: Signal}))

    def get_quality(
        self,
        key: str,
        *,
        version: int | None = None,
        from_: datetime | str | None = None,
        to: datetime | str | None = None,
        cost_false_yes: float | None = None,
        cost_false_no: float | None = None,
        include: str | None = None,
    ) -> SignalQuality:
        """Compare a signal's labels with its answers.

        Each label that counts is compared with the answer that stood when it was given; at most the newest 50,000. A
        figure has a 95 % interval. Below 10 labels there are none, and `needs` says how many more labels they need.

        Args:
            key: The signal's key.
            version: Only answers of this version of the signal; all if left out.
            from_: Only labels given at this time or later, in RFC 3339.
            to: Only labels given before this time, in RFC 3339.
            cost_false_yes: `noul`: the cost of flagging an object that is labelled no; 1 if left out.
            cost_false_no: `noul`: the cost of not flagging an object that is labelled yes; 1 if left out.
            include: `versions` and `escalation`, separated by commas: what their own routes respond with.
                Escalation needs an admin, an owner or an API key.

        Raises:
            BadRequestError: A parameter is invalid.
            NotFoundError: There is no such signal.
        """
        return self._call(
            Call[SignalQuality](
                "GET",
                ("v1", "signals", key, "quality"),
                {200: SignalQuality},
                query={
                    "version": version,
                    "from": from_,
                    "to": to,
                    "cost_false_yes": cost_false_yes,
                    "cost_false_no": cost_false_no,
                    "include": include,
                },
            ),
        )

    def create_calibration(self, key: str) -> Calibration:
        """Fit a calibration to a signal's labels.

        Fitted to the analyzer's own answers to the present wording, and judged by cross-validation. It is stored, but
        not switched on.

        Args:
            key: The signal's key.

        Raises:
            NotFoundError: There is no such signal.
            ConflictError: There are fewer than 50 labels, or fewer than 10 of a side.
        """
        return self._call(Call[Calibration]("POST", ("v1", "signals", key, "calibrations"), {201: Calibration}))

    def put_calibration(self, key: str, *, id: str | None) -> CalibrationSwitched:
        """Switch a signal's calibration on or off.

        This makes a new version of the signal: answers from now on are calibrated, or the analyzer's own. Thresholds of
        rules then mean something else; no rule is changed.

        Args:
            key: The signal's key.
            id: The id of a calibration, or null for none. Required.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such signal, or it has no such calibration.
            ConflictError: The calibration was fitted to another wording of the signal.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[CalibrationSwitched](
                "PUT",
                ("v1", "signals", key, "calibration"),
                {200: CalibrationSwitched},
                body={"id": id},
            ),
        )

    def get_escalation(self, key: str) -> SignalEscalation:
        """Read which answers of a signal go to the second analyzer.

        With what that has cost today. For those who see money.

        Args:
            key: The signal's key.

        Raises:
            NotFoundError: There is no such signal.
        """
        return self._call(Call[SignalEscalation]("GET", ("v1", "signals", key, "escalation"), {200: SignalEscalation}))

    def put_escalation(
        self,
        key: str,
        *,
        band: Sequence[float] | Unset | None = UNSET,
        below: float | Unset | None = UNSET,
        target_error: float | Unset | None = UNSET,
    ) -> SignalEscalation:
        """Set which answers of a signal go to the second analyzer.

        A `band` of probabilities for `noul`, a confidence to be `below` for the other types, or a `target_error`, from
        which either is fitted to the labels. `{"band": null}` ends it. It counts from the next analysis on, and is no
        new version of the signal.

        Args:
            key: The signal's key.
            band: `noul`: the lowest and the highest probability that is unsure. Null ends the escalation of a
                signal of any type.
            below: `choice` and `score`: the confidence below which an answer is unsure.
            target_error: The share of wrong answers that the first analyzer may give where it is not unsure: fitted
                to the labels, so that the fewest are escalated.

        Raises:
            BadRequestError: The body is malformed or fails validation.
            NotFoundError: There is no such signal.
            ConflictError: There is no second analyzer, or there are fewer than 50 labels of answers of the present
                version.
            PayloadTooLargeError: The body is larger than 4 MiB.
        """
        return self._call(
            Call[SignalEscalation](
                "PUT",
                ("v1", "signals", key, "escalation"),
                {200: SignalEscalation},
                body={"band": band, "below": below, "target_error": target_error},
            ),
        )
