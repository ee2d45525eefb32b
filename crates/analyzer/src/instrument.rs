//! What all analyzers have in common: metrics, and that an inquiry without a single answer has failed.

use metrics::{counter, histogram};
use tokio::time::Instant;

use crate::{Analyzer, Failure, Inquiry, InquiryAnswers};

/// Awaits the reply of an analyzer and records metrics about it. Without questions the analyzer is not called.
pub(crate) async fn instrumented(
    name: &'static str,
    analyzer: &impl Analyzer,
    inquiry: Inquiry<'_>,
    answering: impl Future<Output = Result<InquiryAnswers, Failure>>,
) -> Result<InquiryAnswers, Failure> {
    if inquiry.questions.is_empty() {
        let model = analyzer.model().to_owned();
        return Ok(InquiryAnswers { model, answers: Vec::new(), input_tokens: 0, output_tokens: 0 });
    }
    let started = Instant::now();
    let result = answering.await;
    if let Ok(reply) = &result {
        let answered = reply.answers.iter().filter(|answer| answer.is_ok()).count();
        count_answers("answered", answered);
        count_answers("failed", reply.answers.len() - answered);
    }
    let result = result.and_then(require_an_answer);
    let outcome = match &result {
        Ok(_) => "answered",
        Err(Failure::Throttled { .. }) => {
            counter!("auspex_analyzer_throttled_total").increment(1);
            "throttled"
        }
        Err(Failure::Busy) => "busy",
        Err(Failure::Down(_)) => "down",
        Err(Failure::Failed(_)) => "failed",
        Err(Failure::OutOfTime) => "out_of_time",
        Err(Failure::CallerLeft) => "caller_left",
    };
    histogram!("auspex_analyzer_seconds", "analyzer" => name, "outcome" => outcome)
        .record(started.elapsed().as_secs_f64());
    result
}

fn count_answers(outcome: &'static str, number: usize) {
    counter!("auspex_analyzer_answers_total", "outcome" => outcome)
        .increment(number.try_into().unwrap_or(u64::MAX));
}

fn require_an_answer(reply: InquiryAnswers) -> Result<InquiryAnswers, Failure> {
    if reply.answers.iter().any(Result::is_ok) {
        return Ok(reply);
    }
    match reply.answers.first() {
        Some(Err(error)) => Err(Failure::failed(error.clone())),
        _ => Ok(reply),
    }
}
