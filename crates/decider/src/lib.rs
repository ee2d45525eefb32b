//! The embedded model: a small decision model of our own that is compiled in and runs offline.
//!
//! A text is split into tokens (`tokenizer`), cut to what the model can read (`reading`), and evaluated with the
//! weights (`weights`) by a transformer (`network`) in passes (`passes`), which gives a logit for each candidate of a
//! question. A calibration for each kind of question (`calibration`) turns logits into probabilities. `DeciderPool` runs
//! all this on threads of its own.

mod calibration;
mod model_input;
mod network;
mod passes;
mod pool;
mod tokenizer;
mod weights;

use std::ops::Range;
use std::sync::Arc;

use model::{Distribution, InvalidDistribution, Question, SignalType};

use calibration::Calibration;
use model_input::State;
use network::Network;
use passes::{OptionText, PASS_COST, Passes, option_cost};
pub use pool::{DeciderPool, StartError};
use tokenizer::Tokenizer;
pub use weights::InvalidWeights;
use weights::Weights;

/// The name of the model. It changes with the weights.
pub const MODEL: &str = "auspex-1.0";
/// What reading a question again for each unread part may cost in all layers: some 16 passes of a second or less of one core.
const UNREAD_COST: usize = 16 * PASS_COST;
/// Parts that are tried however costly a question is.
const MIN_UNREAD_PARTS: usize = 12;

/// The model, loaded and ready to answer.
pub struct Decider {
    tokenizer: Tokenizer,
    network: Network,
    noul: Calibration,
    choice: Calibration,
    score: Calibration,
}

/// The answers to some questions about one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// One for each question, in the order of the questions.
    pub answers: Vec<Result<Distribution, InvalidDistribution>>,
    /// Tokens that the network read: of the text, and of each question with each of its candidates.
    pub input_tokens: u64,
}

/// Questions about one text that are being answered, pass by pass.
pub struct Evaluation {
    questions: Vec<Question>,
    passes: Passes,
    input_tokens: u64,
}

impl Evaluation {
    /// Tokens that the network reads for all answers.
    pub fn input_tokens(&self) -> u64 {
        self.input_tokens
    }
}

/// An evaluation after a pass.
pub enum Progress {
    /// There are more passes to make.
    More(Evaluation),
    /// All questions are answered.
    Done(Decision),
}

impl Decider {
    /// Loads the weights, which takes about half a second. Fails only if the build is defective.
    pub fn load() -> Result<Self, InvalidWeights> {
        let weights = Weights::open()?;
        let calibration =
            |kind: SignalType| Calibration::parse(&weights.config("calibration")[kind.as_str()]);
        Ok(Self {
            tokenizer: Tokenizer::new(),
            network: Network::load(&weights)?,
            noul: calibration(SignalType::Noul),
            choice: calibration(SignalType::Choice),
            score: calibration(SignalType::Score),
        })
    }

    /// Answers questions about a text. An answer depends on its question and on the text alone.
    pub fn decide(&self, state: &str, questions: &[Question]) -> Decision {
        let mut evaluation = self.begin(state, questions.to_vec());
        loop {
            match self.advance(evaluation) {
                Progress::More(more) => evaluation = more,
                Progress::Done(decision) => return decision,
            }
        }
    }

    /// Begins to answer questions about a text. Nothing has been computed yet.
    pub fn begin(&self, state: &str, questions: Vec<Question>) -> Evaluation {
        let state = State::read(&self.tokenizer, state);
        let all: Arc<[Range<usize>]> = Arc::new([]);
        let options =
            questions.iter().flat_map(|question| model_input::question_tokens(&self.tokenizer, question));
        let options = options.map(|tokens| OptionText { tokens, unread: Arc::clone(&all) }).collect();
        Evaluation::new(state, questions, options)
    }

    /// Begins to answer a question about a text, and again about the text without each of some parts: the text is read once,
    /// and the question for each part without attending to the lines that start in it. There are answers for as many of the
    /// parts, from the first on, as can be tried in a bounded time.
    pub fn begin_unread(&self, state: &str, question: &Question, parts: &[Range<usize>]) -> Evaluation {
        let state = State::read(&self.tokenizer, state);
        let options = model_input::question_tokens(&self.tokenizer, question);
        let cost = option_cost(options.iter().map(Vec::len).sum(), state.row_count());
        let tried =
            (UNREAD_COST / (cost * self.network.layers()).max(1)).max(MIN_UNREAD_PARTS).min(parts.len());
        let parts = parts[..tried].iter().map(|part| state.rows_of(part));
        let readings: Vec<Arc<[Range<usize>]>> =
            std::iter::once(Vec::new()).chain(parts).map(Arc::from).collect();
        let without = |unread: &Arc<[Range<usize>]>| {
            let text = |tokens: &Vec<u32>| OptionText { tokens: tokens.clone(), unread: Arc::clone(unread) };
            options.iter().map(text).collect::<Vec<_>>()
        };
        let texts = readings.iter().flat_map(without).collect();
        Evaluation::new(state, vec![question.clone(); readings.len()], texts)
    }

    /// Makes the next pass of an evaluation, which takes a second or two of one core at most.
    pub fn advance(&self, mut evaluation: Evaluation) -> Progress {
        evaluation.passes.advance(&self.network);
        let Some(logits) = evaluation.logits() else { return Progress::More(evaluation) };
        let answers = evaluation.questions.iter().zip(logits);
        let answers = answers.map(|(question, logits)| self.calibrated(question.kind, &logits)).collect();
        Progress::Done(Decision { answers, input_tokens: evaluation.input_tokens })
    }

    /// The logits of each question's candidates before calibration, and the number of tokens that were read.
    pub fn logits(&self, state: &str, questions: &[Question]) -> (Vec<Vec<f64>>, u64) {
        let mut evaluation = self.begin(state, questions.to_vec());
        loop {
            if let Some(logits) = evaluation.logits() {
                return (logits, evaluation.input_tokens);
            }
            evaluation.passes.advance(&self.network);
        }
    }

    /// The probabilities that logits stand for in a question of this kind.
    pub fn calibrated(&self, kind: SignalType, logits: &[f64]) -> Result<Distribution, InvalidDistribution> {
        let calibration = match kind {
            SignalType::Noul => self.noul,
            SignalType::Choice => self.choice,
            SignalType::Score => self.score,
        };
        calibration.distribution(logits)
    }
}

impl Evaluation {
    fn new(state: State, questions: Vec<Question>, options: Vec<OptionText>) -> Self {
        let tokens = state.row_count() + options.iter().map(|option| option.tokens.len()).sum::<usize>();
        let input_tokens = u64::try_from(tokens).unwrap_or(u64::MAX);
        Self { questions, passes: Passes::new(state.chunks, options), input_tokens }
    }

    /// The logits of each question's candidates, if all have been computed.
    fn logits(&self) -> Option<Vec<Vec<f64>>> {
        let mut logits = self.passes.logits()?.iter().copied().map(f64::from);
        let of_question = |question: &Question| logits.by_ref().take(question.candidates.len()).collect();
        Some(self.questions.iter().map(of_question).collect())
    }
}

#[cfg(test)]
mod tests;
