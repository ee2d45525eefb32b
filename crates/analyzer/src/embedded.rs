//! The model that is built in: small, ours, offline. It loads in the background and answers on as many cores as there are.

mod network;
mod reading;
mod weights;
mod wordpiece;

use std::sync::{Arc, OnceLock};

use model::{Distribution, Question, SignalType};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::measure::measured;
use crate::places::Places;
use crate::{Analyzer, AnswerError, BoxFuture, Failure, Findings, Inquiry};
use network::Network;
use weights::{Broken, Weights};
use wordpiece::WordPiece;

/// The model's name: it changes with the weights.
const MODEL: &str = "auspex-1.0";

/// The embedded model. Clones share it.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
    pool: Arc<ThreadPool>,
    /// One inquiry a core: more would only take turns, and hold their memory meanwhile.
    places: Arc<Places>,
}

#[derive(Default)]
struct Shared {
    loaded: OnceLock<Result<Judge, String>>,
}

/// All that it takes to answer.
struct Judge {
    words: WordPiece,
    network: Network,
    noul: Calibration,
    choice: Calibration,
    score: Calibration,
}

/// What makes the shares of a kind of question honest: fitted on histories that were not trained on.
#[derive(Clone, Copy)]
struct Calibration {
    temperature: f64,
    /// What is added to the first candidate: yes.
    bias: f64,
}

impl Embedded {
    /// Starts to load at once, and returns at once. Fails where no thread can be started.
    pub fn new() -> Result<Self, Failure> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let named = |number| format!("embedded-{number}");
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(named)
            .build()
            .map_err(Failure::failed)?;
        let embedded =
            Self { shared: Arc::default(), pool: Arc::new(pool), places: Arc::new(Places::new(threads)) };
        let shared = Arc::clone(&embedded.shared);
        embedded.pool.spawn(move || {
            let _ = shared.judge();
        });
        Ok(embedded)
    }

    async fn findings(&self, inquiry: Inquiry<'_>) -> Result<Findings, Failure> {
        let _place = self.places.take(inquiry.is_urgent).await?;
        let (sender, receiver) = oneshot::channel();
        let (state, questions) = (inquiry.state.to_owned(), inquiry.questions.to_vec());
        let shared = Arc::clone(&self.shared);
        self.pool.spawn(move || {
            // Whoever asked may have gone.
            let _ = sender.send(shared.judge().map(|judge| judge.findings(&state, &questions)));
        });
        receiver.await.map_err(Failure::failed)?.map_err(Failure::failed)
    }
}

impl Analyzer for Embedded {
    fn model(&self) -> &str {
        MODEL
    }

    fn analyze<'a>(&'a self, inquiry: Inquiry<'a>) -> BoxFuture<'a, Result<Findings, Failure>> {
        Box::pin(measured("embedded", self, inquiry, self.findings(inquiry)))
    }
}

impl Shared {
    fn judge(&self) -> Result<&Judge, String> {
        let loaded = self.loaded.get_or_init(|| Judge::load().map_err(|broken| broken.to_string()));
        loaded.as_ref().map_err(Clone::clone)
    }
}

impl Judge {
    fn load() -> Result<Self, Broken> {
        let weights = Weights::open()?;
        let calibration = |kind: SignalType| Calibration::read(&weights.config("calibration")[kind.as_str()]);
        Ok(Self {
            words: WordPiece::new(),
            network: Network::load(&weights)?,
            noul: calibration(SignalType::Noul),
            choice: calibration(SignalType::Choice),
            score: calibration(SignalType::Score),
        })
    }

    fn findings(&self, state: &str, questions: &[Question]) -> Findings {
        let chunks = reading::chunks(&self.words, state);
        let options: Vec<Vec<Vec<u32>>> =
            questions.iter().map(|question| reading::options(&self.words, question)).collect();
        let tokens = chunks.iter().chain(options.iter().flatten()).map(Vec::len).sum::<usize>();
        let mut logits = self.network.logits(&chunks, &options.concat()).into_iter();
        let answer = |question: &Question| {
            let logits: Vec<f64> = logits.by_ref().take(question.candidates.len()).map(f64::from).collect();
            self.calibration(question.kind).distribution(&logits)
        };
        Findings {
            model: MODEL.to_owned(),
            answers: questions.iter().map(answer).collect(),
            input_tokens: u64::try_from(tokens).unwrap_or(u64::MAX),
            output_tokens: 0,
        }
    }

    fn calibration(&self, kind: SignalType) -> Calibration {
        match kind {
            SignalType::Noul => self.noul,
            SignalType::Choice => self.choice,
            SignalType::Score => self.score,
        }
    }
}

impl Calibration {
    fn read(value: &Value) -> Self {
        let number = |index: usize, otherwise: f64| value[index].as_f64().unwrap_or(otherwise);
        Self { temperature: number(0, 1.0), bias: number(1, 0.0) }
    }

    fn distribution(self, logits: &[f64]) -> Result<Distribution, AnswerError> {
        let mut logits: Vec<f64> = logits.iter().map(|logit| logit / self.temperature).collect();
        if let Some(first) = logits.first_mut() {
            *first += self.bias;
        }
        let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logits.iter().map(|logit| (logit - highest).exp()).collect();
        Distribution::from_weights(&weights).map_err(|_| AnswerError::Incomplete)
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Embedded").field("model", &MODEL).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
