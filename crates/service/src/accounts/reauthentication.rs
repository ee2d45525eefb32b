//! Confirmation of the password or a code by a signed-in user.

use model::UserId;

use crate::runtime::{Kind, Limit, Result, Throttle};

/// Limits wrong passwords and codes of a signed-in user, so that a stolen session cannot be used to guess them.
pub(crate) async fn reauthenticating<T>(
    throttle: &Throttle,
    user: UserId,
    work: impl AsyncFnOnce() -> Result<T>,
) -> Result<T> {
    let subject = user.to_string();
    throttle.attempt(&Limit::REAUTHENTICATE, &subject).await?;
    let outcome = work().await;
    match &outcome {
        Ok(_) => throttle.clear(&Limit::REAUTHENTICATE, &subject).await?,
        Err(error)
            if matches!(error.kind(), Kind::InvalidPassword | Kind::InvalidCode | Kind::InvalidPasskey) => {}
        Err(_) => throttle.forgive(&Limit::REAUTHENTICATE, &subject).await?,
    }
    outcome
}
