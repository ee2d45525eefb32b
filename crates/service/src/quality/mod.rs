//! What people say is true, how good the answers are by that, and calibrations that are fitted to it.

mod calibrations;
mod computing;
mod escalation_fits;
mod labelled;
mod labels;
mod reports;

pub use self::calibrations::Calibrations;
pub use self::labels::{LabelQuery, Labels};
pub use self::reports::{QualityQuery, QualityReports};

pub(crate) use crate::objects::answers::no_such_signal;

pub(crate) use self::computing::Computing;
pub(crate) use self::escalation_fits::EscalationFits;
pub(crate) use self::labels::{
    AUDIT_INTERVAL, NewLabel, checked_note, checked_value, page as label_page, record as label_record,
};

/// Labels, and what follows from them.
pub struct Quality {
    /// What people say is true.
    pub labels: Labels,
    /// How good the answers are.
    pub reports: QualityReports,
    /// Fits answers to labels.
    pub calibrations: Calibrations,
}
