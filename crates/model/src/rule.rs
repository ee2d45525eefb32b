//! When a rule fires for an object, and the messages that it then sends.
//!
//! Untrusted text in a message (names, ids, conditions) is escaped and cut to length, so that it cannot inject markup or
//! make the message too long to be accepted.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Answer, Timestamp, single_line};

/// The state of a rule for one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleState {
    /// Whether the condition was true when it was last evaluated.
    pub matched: bool,
    /// When the rule last fired for the object.
    pub fired_at: Option<Timestamp>,
}

impl RuleState {
    /// The state after an analysis, and whether the rule fires.
    ///
    /// Without a cooldown it fires when the condition becomes true. With one it fires while the condition is true, at most
    /// once in that time.
    #[must_use]
    pub fn after(self, matches: bool, cooldown: Duration, now: Timestamp) -> (Self, bool) {
        let fires = matches
            && match self.fired_at {
                _ if cooldown.is_zero() => !self.matched,
                Some(fired_at) => now >= fired_at + cooldown,
                None => true,
            };
        (Self { matched: matches, fired_at: if fires { Some(now) } else { self.fired_at } }, fires)
    }
}

/// A rule that fired for an object, for use in messages.
#[derive(Clone, Copy, Debug)]
pub struct Triggered<'a> {
    /// The rule's name.
    pub rule_name: &'a str,
    /// Its condition.
    pub when: &'a str,
    /// The object.
    pub object_id: &'a str,
    /// The answers to the signals in the condition.
    pub values: &'a [Answer],
    /// When it fired.
    pub at: Timestamp,
    /// The object's page in the console.
    pub link: &'a str,
}

/// The number of characters of a name or an id that a message shows.
const MAX_NAME_SHOWN: usize = 120;
/// The number of characters of a condition that a message shows.
const MAX_CONDITION_SHOWN: usize = 500;
/// The number of values that a message shows; a condition has at most fifty.
const MAX_VALUES_SHOWN: usize = 20;
/// The longest text of a section; Slack refuses a message with a longer one.
const MAX_SECTION: usize = 3_000;
/// The longest link: a section also has room for a name and an id with every character escaped.
const MAX_LINK: usize = 1_500;

impl Triggered<'_> {
    /// The rule, on one line.
    pub fn rule(&self) -> String {
        shown(self.rule_name, MAX_NAME_SHOWN)
    }

    /// The object, on one line.
    pub fn object(&self) -> String {
        shown(self.object_id, MAX_NAME_SHOWN)
    }

    /// The condition, on one line.
    pub fn condition(&self) -> String {
        shown(self.when, MAX_CONDITION_SHOWN)
    }

    /// Each value on a line: `is_scammer: 0.97`.
    pub fn value_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.values.iter().take(MAX_VALUES_SHOWN).map(value_line).collect();
        if self.values.len() > MAX_VALUES_SHOWN {
            lines.push(format!("and {} more", self.values.len() - MAX_VALUES_SHOWN));
        }
        lines
    }

    /// When it fired, to the minute.
    pub fn time(&self) -> String {
        minute(self.at)
    }

    /// The default subject of an email about it.
    pub fn subject(&self) -> String {
        format!("{}: {}", self.rule(), self.object())
    }

    /// The message for a Slack incoming webhook, in Block Kit, with a plain text for notifications.
    pub fn slack_message(&self) -> Value {
        let (rule, object) = (escape(&self.rule()), escape(&self.object()));
        let linked = if self.link.len() > MAX_LINK {
            format!("*{object}*")
        } else {
            format!("<{}|{object}>", escape(self.link))
        };
        let values = self.slack_values();
        let section = |text: String| json!({"type": "section", "text": {"type": "mrkdwn", "text": text}});
        json!({
            "text": format!("{rule}: {object}"),
            "blocks": [
                section(format!("*{rule}*\nThe rule fired for {linked}")),
                section(format!("*Condition*\n```{}```", escape(&self.condition()))),
                section(values),
                {
                    "type": "context",
                    "elements": [{"type": "mrkdwn", "text": format!("Auspex · {}", self.time())}],
                },
            ],
            "unfurl_links": false,
            "unfurl_media": false,
        })
    }
}

impl Triggered<'_> {
    /// As many values as fit into a section.
    fn slack_values(&self) -> String {
        let mut text = "*Values*\n```".to_owned();
        let mut length = text.len();
        for (index, line) in self.value_lines().iter().enumerate() {
            let line = format!("{}{}", if index == 0 { "" } else { "\n" }, escape(line));
            length += line.chars().count();
            if length > MAX_SECTION - "\n…```".len() {
                text.push_str("\n…");
                break;
            }
            text.push_str(&line);
        }
        text + "```"
    }
}

/// A test of a rule's action, for use in its message.
#[derive(Clone, Copy, Debug)]
pub struct ActionTest<'a> {
    /// The rule's name.
    pub rule_name: &'a str,
    /// When it is sent.
    pub at: Timestamp,
}

impl ActionTest<'_> {
    /// The rule, on one line.
    pub fn rule(&self) -> String {
        shown(self.rule_name, MAX_NAME_SHOWN)
    }

    /// When it is sent, to the minute.
    pub fn time(&self) -> String {
        minute(self.at)
    }

    /// The message for a Slack incoming webhook, like [`Triggered::slack_message`].
    pub fn slack_message(&self) -> Value {
        let rule = escape(&self.rule());
        let text = format!("*Test of {rule}*\nSomebody tested the action of this rule. It has not fired.");
        json!({
            "text": format!("Test of {rule}"),
            "blocks": [
                {"type": "section", "text": {"type": "mrkdwn", "text": text}},
                {
                    "type": "context",
                    "elements": [{"type": "mrkdwn", "text": format!("Auspex · {}", self.time())}],
                },
            ],
            "unfurl_links": false,
            "unfurl_media": false,
        })
    }
}

/// An instant to the minute.
fn minute(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} {} UTC", at.date(), text.get(11..16).unwrap_or_default())
}

fn value_line(answer: &Answer) -> String {
    let value = match (answer.value.number(), &answer.value.choice) {
        (Some(number), _) => number.to_string(),
        (None, Some(choice)) => shown(choice, MAX_NAME_SHOWN),
        (None, None) => String::new(),
    };
    format!("{}: {value}", answer.signal)
}

/// Untrusted text on one line, cut to length.
fn shown(text: &str, max: usize) -> String {
    let line = single_line(text);
    let line = line.trim();
    if line.chars().count() <= max {
        return line.to_owned();
    }
    let cut: String = line.chars().take(max - 1).collect();
    format!("{cut}…")
}

/// Escapes text for Slack's markup: it cannot mention anyone, link, or end a code block.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Slack cannot escape its markup characters. These only look like them.
            '`' => escaped.push('ˋ'),
            '*' => escaped.push('∗'),
            '|' => escaped.push('¦'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{AnswerValue, SignalType};

    const MINUTE: Duration = Duration::from_mins(1);
    const NOW: Timestamp = Timestamp::from_seconds(1_767_225_600);

    fn rule_state(matched: bool, fired_ago: Option<u64>) -> RuleState {
        RuleState { matched, fired_at: fired_ago.map(|seconds| NOW - Duration::from_secs(seconds)) }
    }

    fn noul(signal: &str, value: f64) -> Answer {
        let value = AnswerValue {
            kind: SignalType::Noul,
            noul: Some(value),
            choice: None,
            score: None,
            probabilities: None,
            confidence: None,
        };
        Answer::of(signal.to_owned(), value)
    }

    fn choice(signal: &str, option: &str) -> Answer {
        let noul = noul(signal, 0.0);
        let choice = Some(option.to_owned());
        let value = AnswerValue { kind: SignalType::Choice, noul: None, choice, ..noul.value };
        Answer { value, ..noul }
    }

    fn triggered<'a>(
        name: &'a str,
        object_id: &'a str,
        values: &'a [Answer],
        link: &'a str,
    ) -> Triggered<'a> {
        Triggered { rule_name: name, when: "risk > 0.9", object_id, values, at: NOW, link }
    }

    #[test]
    fn without_a_cooldown_it_fires_when_the_condition_becomes_true() {
        for fired_ago in [None, Some(0), Some(1_000_000)] {
            for (before, matches, fires) in
                [(false, false, false), (false, true, true), (true, true, false), (true, false, false)]
            {
                let (after, fired) = rule_state(before, fired_ago).after(matches, Duration::ZERO, NOW);
                assert_eq!((after.matched, fired), (matches, fires), "{before} -> {matches}");
            }
        }
    }

    #[test]
    fn with_a_cooldown_it_fires_once_in_that_time() {
        for before in [false, true] {
            let fires = |fired_ago, matches| rule_state(before, fired_ago).after(matches, MINUTE, NOW).1;
            assert!(fires(None, true), "the first time");
            assert!(!fires(Some(0), true) && !fires(Some(59), true), "during the cooldown");
            assert!(fires(Some(60), true) && fires(Some(61), true), "after the cooldown");
            assert!(!fires(None, false) && !fires(Some(61), false));
        }
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_fire_the_rule_again() {
        let future = RuleState { matched: true, fired_at: Some(NOW + MINUTE) };
        assert!(!future.after(true, Duration::from_secs(1), NOW).1);
    }

    proptest! {
        /// Over any sequence of analyses, the rule fires exactly when the definition says.
        #[test]
        fn a_rule_fires_as_defined(
            steps in prop::collection::vec((any::<bool>(), 0_u64..200), 1..60),
            cooldown in prop_oneof![Just(0_u64), 1_u64..300],
        ) {
            let cooldown = Duration::from_secs(cooldown);
            let (mut rule_state, mut now, mut last, mut before) = (RuleState::default(), NOW, None, false);
            for (matches, wait) in steps {
                now = now + Duration::from_secs(wait);
                let (after, fires) = rule_state.after(matches, cooldown, now);
                let rested = last.is_none_or(|last| now.since(last) >= cooldown);
                let expected = matches && if cooldown.is_zero() { !before } else { rested };
                prop_assert_eq!(fires, expected);
                if fires {
                    last = Some(now);
                }
                prop_assert_eq!(after, RuleState { matched: matches, fired_at: last });
                (rule_state, before) = (after, matches);
            }
        }

        /// No untrusted text makes a message that Slack would refuse, mentions anyone or closes the code block.
        #[test]
        fn slack_messages_stay_within_limits(
            name in "[&<>`*|a-cä\n]{0,300}", object in "[&<>`*|a-cä]{1,255}", when in "[&<>`*|a-cä]{0,5000}",
            option in "[&<>`*|a-cä]{1,64}", values in 0_usize..51,
        ) {
            let values: Vec<Answer> = (0..values).map(|_| choice("a_signal", &option)).collect();
            let link = format!("https://auspex.example/console/objects/{}", "%F0".repeat(object.len()));
            let triggered = Triggered { rule_name: &name, when: &when, object_id: &object, values: &values, at: NOW, link: &link };
            let message = triggered.slack_message();
            for block in message["blocks"].as_array().unwrap() {
                let text = block["text"]["text"].as_str().unwrap_or_default();
                prop_assert!(text.chars().count() <= 3_000, "{} characters", text.chars().count());
                prop_assert!(!text.contains("<!") && !text.contains("<@") && !text.contains("<#"));
                let fences = text.matches("```").count();
                prop_assert!(fences == 0 || fences == 2);
                let links = text.matches('<').count();
                prop_assert!(links <= 1 && links == text.matches('>').count());
            }
        }
    }

    #[test]
    fn a_slack_message_says_what_happened_and_where_to_look() {
        let values = [noul("risk", 0.97), choice("intent", "a & b")];
        let link = "https://auspex.example/console/objects/user%2F1";
        let message = triggered("Scam <!channel> *now*", "user/1", &values, link).slack_message();
        let expected = json!({
            "text": "Scam &lt;!channel&gt; ∗now∗: user/1",
            "blocks": [
                {"type": "section", "text": {"type": "mrkdwn",
                    "text": "*Scam &lt;!channel&gt; ∗now∗*\nThe rule fired for <https://auspex.example/console/objects/user%2F1|user/1>"}},
                {"type": "section", "text": {"type": "mrkdwn", "text": "*Condition*\n```risk &gt; 0.9```"}},
                {"type": "section", "text": {"type": "mrkdwn", "text": "*Values*\n```risk: 0.97\nintent: a &amp; b```"}},
                {"type": "context", "elements": [{"type": "mrkdwn", "text": "Auspex · 2026-01-01 00:00 UTC"}]},
            ],
            "unfurl_links": false,
            "unfurl_media": false,
        });
        assert_eq!(message, expected);
    }

    #[test]
    fn long_text_is_cut_and_stays_on_one_line() {
        let (name, many) = ("x\u{2028}\r\n".repeat(200), vec![noul("risk", 1.0); 25]);
        let triggered = triggered(&name, "user_1", &many, "https://auspex.example");
        assert_eq!(triggered.rule().chars().count(), MAX_NAME_SHOWN);
        assert!(triggered.rule().ends_with('…') && !triggered.subject().contains(crate::breaks_line));
        let lines = triggered.value_lines();
        assert_eq!((lines.len(), lines[20].as_str()), (21, "and 5 more"));
    }
}
