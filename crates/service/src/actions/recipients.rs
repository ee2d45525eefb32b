//! The recipients of rule mails: strangers get mails only once they have agreed to them, and anybody can withdraw.
//!
//! The links in mails carry a token: account, recipient, and a code that is derived from the recipient's sealed secret, one
//! for agreeing and one for withdrawing. So every mail has the same links, nothing in the database makes one, and they outlive
//! the master key.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use model::{EmailAddress, TenantId, Timestamp};
use sha2::{Digest as _, Sha256};
use store::accounts::{tenants, users};
use store::actions::recipients::{self, Recipient};
use store::{Conn, Store};
use uuid::Uuid;

use crate::outbox::mail::{Mail, MailTemplates};
use crate::runtime::{Clock, Error, Kind, Limit, Random, Result, Sealer, internal};

/// The column that secrets of recipients are sealed for.
const SECRET_COLUMN: &str = "mail_recipients.secret";
const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 16;
/// The length of the code in a link: impossible to guess.
const CODE_BYTES: usize = 16;
/// The shortest time between two confirmations to one recipient.
const ASK_INTERVAL: Duration = Duration::from_hours(24);
/// The confirmations that an account may send in that time: it could fill the mailboxes of strangers with them.
const MAX_CONFIRMATIONS: i64 = 50;

/// What a link is for.
#[derive(Clone, Copy)]
enum Purpose {
    Confirm,
    Withdraw,
}

/// Whether a rule may write to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// It may.
    Given,
    /// The recipient does not want any mail of this account.
    Withdrawn,
    /// Nobody has proved an email address of the account itself.
    AccountUnproved,
    /// The recipient has not agreed yet.
    Missing,
}

/// What a rule needs to know to write to an address.
pub(crate) struct Addressee {
    pub(crate) consent: Consent,
    /// The token with which the recipient withdraws.
    pub(crate) withdraw_token: String,
}

/// The recipients of the mails that are about to be sent, and the confirmations that may be mailed to them.
#[derive(Default)]
pub(crate) struct Addressees {
    by_address: HashMap<String, Addressee>,
    /// Whoever has waited longest comes first.
    pub(crate) due: Vec<Confirmation>,
}

/// A question whether a recipient wants the mails of an account's rules.
pub(crate) struct Confirmation {
    recipient: Uuid,
    asked_before: Option<Timestamp>,
    mail: Mail,
}

impl Consent {
    /// Why nothing may be sent, if so.
    pub(crate) fn objection(self) -> Option<&'static str> {
        match self {
            Self::Given => None,
            Self::Withdrawn => Some("the recipient does not want mails from this account's rules"),
            Self::AccountUnproved => Some("no member of the account has proved their email address yet"),
            Self::Missing => {
                Some("the recipient has not confirmed yet; a question is mailed at most once a day")
            }
        }
    }
}

impl Addressees {
    /// What is known about an address, however it is written.
    pub(crate) fn of(&self, address: &str) -> Option<&Addressee> {
        let address: EmailAddress = address.parse().ok()?;
        self.by_address.get(address.key())
    }
}

/// The recipients of rule mails, of all tenants.
#[derive(Clone)]
pub struct Recipients {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) sealer: Sealer,
    pub(crate) templates: MailTemplates,
    /// Whether recipients must agree first.
    pub(crate) must_confirm: bool,
}

impl Recipients {
    /// Records that the recipient of a link agrees to the mails of the account's rules.
    pub async fn confirm(&self, token: &str) -> Result<()> {
        let (tenant, recipient) = self.verified(token, Purpose::Confirm).await?;
        let now = self.clock.now();
        let confirmed = self
            .store
            .write("confirm_recipient", async |conn: &mut Conn| {
                recipients::confirm(conn, tenant, recipient, now).await
            })
            .await?;
        if confirmed { Ok(()) } else { Err(invalid_token()) }
    }

    /// Records that the recipient of a link wants no more mails of the account's rules. Doing so again changes nothing.
    pub async fn withdraw(&self, token: &str) -> Result<()> {
        let (tenant, recipient) = self.verified(token, Purpose::Withdraw).await?;
        let now = self.clock.now();
        self.store
            .write("withdraw_recipient", async |conn: &mut Conn| {
                recipients::withdraw(conn, tenant, recipient, now).await
            })
            .await?;
        Ok(())
    }

    /// Looks up to whom rules may write, in the transaction in which they fire, and which confirmations are due.
    pub(crate) async fn look_up<'a>(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        addresses: impl Iterator<Item = &'a str>,
    ) -> Result<Addressees> {
        // In key order, to avoid deadlocks.
        let wanted: BTreeMap<Uuid, EmailAddress> = addresses
            .filter_map(|address| address.parse().ok())
            .map(|address: EmailAddress| (recipient_id(tenant, &address), address))
            .collect();
        let known = self.known(conn, tenant, &wanted).await?;
        let proved = if self.must_confirm { users::proved(conn, tenant).await? } else { Vec::new() };
        let since = self.clock.now() - ASK_INTERVAL;
        let mut addressees = Addressees::default();
        let mut askable = Vec::new();
        for (id, address) in wanted {
            let Some(recipient) = known.get(&id) else { continue };
            let withdraw_token = token(tenant, id, &self.secret(recipient)?, Purpose::Withdraw)?;
            let consent = self.consent(recipient, &address, &proved);
            if consent == Consent::Missing && recipient.asked_at.is_none_or(|asked| asked <= since) {
                askable.push((recipient, address.clone(), withdraw_token.clone()));
            }
            addressees.by_address.insert(address.key().to_owned(), Addressee { consent, withdraw_token });
        }
        if !askable.is_empty() {
            let asker = proved.first().map_or("", |(email, _)| email);
            addressees.due = self.due(conn, tenant, askable, asker).await?;
        }
        Ok(addressees)
    }

    /// The confirmations to these recipients, but those of which other accounts have used up what an address gets in a day.
    async fn due(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        askable: Vec<(&Recipient, EmailAddress, String)>,
        asker: &str,
    ) -> Result<Vec<Confirmation>> {
        let keys = askable.iter().map(|(_, address, _)| address.key());
        let blocked = Limit::CONFIRMATIONS.blocked(conn, keys, self.clock.now()).await?;
        let account = tenants::find(conn, tenant).await?.map(|tenant| tenant.name).unwrap_or_default();
        let mut due = Vec::with_capacity(askable.len());
        for (recipient, address, withdraw_token) in &askable {
            if blocked.contains(address.key()) {
                continue;
            }
            let id = recipient.recipient_id;
            let token = token(tenant, id, &self.secret(recipient)?, Purpose::Confirm)?;
            let mail =
                self.templates.confirm_recipient(address.as_str(), (&account, asker), &token, withdraw_token);
            let mail = Mail { asks: Some(id), ..mail };
            due.push(Confirmation { recipient: id, asked_before: recipient.asked_at, mail });
        }
        due.sort_by_key(|confirmation| confirmation.asked_before);
        Ok(due)
    }

    /// Claims as many of an account's due confirmations as it may still send, at most `most`, and returns their mails. The
    /// caller has locked the account's tally of mails.
    pub(crate) async fn claim(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        mut due: Vec<Confirmation>,
        most: i64,
    ) -> Result<Vec<Mail>> {
        let (now, since) = (self.clock.now(), self.clock.now() - ASK_INTERVAL);
        let asked = recipients::count_asked(conn, tenant, since).await?;
        due.truncate(usize::try_from(most.min(MAX_CONFIRMATIONS - asked)).unwrap_or_default());
        let mut ids: Vec<Uuid> = due.iter().map(|confirmation| confirmation.recipient).collect();
        // In key order, to avoid deadlocks.
        ids.sort();
        let claimed = recipients::claim_confirmations(conn, tenant, &ids, now, since).await?;
        due.retain(|confirmation| claimed.contains(&confirmation.recipient));
        Ok(due.into_iter().map(|confirmation| confirmation.mail).collect())
    }

    /// These recipients, with those added that no rule has written to before.
    async fn known(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        wanted: &BTreeMap<Uuid, EmailAddress>,
    ) -> Result<HashMap<Uuid, Recipient>> {
        let ids: Vec<Uuid> = wanted.keys().copied().collect();
        let mut known = recipients::known(conn, tenant, &ids).await?;
        if known.len() < ids.len() {
            let missing: Vec<Recipient> = ids
                .iter()
                .filter(|id| known.iter().all(|recipient| recipient.recipient_id != **id))
                .map(|id| self.new_recipient(tenant, *id))
                .collect();
            recipients::insert_missing(conn, &missing).await?;
            known = recipients::known(conn, tenant, &ids).await?;
        }
        Ok(known.into_iter().map(|recipient| (recipient.recipient_id, recipient)).collect())
    }

    fn new_recipient(&self, tenant: TenantId, recipient_id: Uuid) -> Recipient {
        let secret: [u8; SECRET_BYTES] = self.random.bytes();
        Recipient {
            tenant_id: tenant,
            recipient_id,
            secret: self.sealer.seal(&self.random, SECRET_COLUMN, recipient_id, &secret),
            asked_at: None,
            confirmed_at: None,
            withdrawn_at: None,
            created_at: self.clock.now(),
        }
    }

    fn consent(&self, recipient: &Recipient, address: &EmailAddress, proved: &[(String, String)]) -> Consent {
        if recipient.withdrawn_at.is_some() {
            return Consent::Withdrawn;
        }
        if !self.must_confirm {
            return Consent::Given;
        }
        if proved.is_empty() {
            return Consent::AccountUnproved;
        }
        let is_member = proved.iter().any(|(_, key)| key == address.key());
        if is_member || recipient.confirmed_at.is_some() { Consent::Given } else { Consent::Missing }
    }

    fn secret(&self, recipient: &Recipient) -> Result<Vec<u8>> {
        self.sealer.open(SECRET_COLUMN, recipient.recipient_id, &recipient.secret).map_err(internal)
    }

    /// The account and the recipient that a token was made for.
    async fn verified(&self, token: &str, purpose: Purpose) -> Result<(TenantId, Uuid)> {
        let (tenant, recipient, code) = parse(token).ok_or_else(invalid_token)?;
        let found = self
            .store
            .read("mail_recipient", async |conn| recipients::find(conn, tenant, recipient).await)
            .await?
            .ok_or_else(invalid_token)?;
        let made = mac(&self.secret(&found)?, purpose)?;
        made.verify_truncated_left(&code).map_err(|_| invalid_token())?;
        Ok((tenant, recipient))
    }
}

/// The id of an address as a recipient of one account's rules.
fn recipient_id(tenant: TenantId, address: &EmailAddress) -> Uuid {
    let digest = Sha256::new()
        .chain_update(b"auspex mail recipient")
        .chain_update(tenant.0)
        .chain_update(address.key())
        .finalize();
    let mut id = [0; ID_BYTES];
    id.copy_from_slice(&digest[..ID_BYTES]);
    Uuid::from_bytes(id)
}

fn mac(secret: &[u8], purpose: Purpose) -> Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(internal)?;
    mac.update(match purpose {
        Purpose::Confirm => b"confirm".as_slice(),
        Purpose::Withdraw => b"withdraw",
    });
    Ok(mac)
}

fn token(tenant: TenantId, recipient: Uuid, secret: &[u8], purpose: Purpose) -> Result<String> {
    let code = mac(secret, purpose)?.finalize().into_bytes();
    Ok(URL_SAFE_NO_PAD.encode([&tenant.0.as_bytes()[..], recipient.as_bytes(), &code[..CODE_BYTES]].concat()))
}

fn parse(token: &str) -> Option<(TenantId, Uuid, [u8; CODE_BYTES])> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (tenant, rest) = bytes.split_first_chunk::<ID_BYTES>()?;
    let (recipient, code) = rest.split_first_chunk::<ID_BYTES>()?;
    Some((TenantId(Uuid::from_bytes(*tenant)), Uuid::from_bytes(*recipient), code.try_into().ok()?))
}

fn invalid_token() -> Error {
    Error::new(Kind::InvalidToken, "the link is not valid or was used already")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_account_one_address_and_one_purpose() {
        let tenant = TenantId(Uuid::from_u128(7));
        let address: EmailAddress = "Ann@Example.com".parse().unwrap();
        let id = recipient_id(tenant, &address);
        assert_eq!(
            id,
            recipient_id(tenant, &"ann@example.com".parse().unwrap()),
            "letter case does not matter"
        );
        assert_ne!(id, recipient_id(TenantId(Uuid::from_u128(8)), &address));
        let made = token(tenant, id, b"secret", Purpose::Confirm).unwrap();
        assert_eq!(made.len(), 64);
        let (parsed_tenant, parsed_id, code) = parse(&made).unwrap();
        assert_eq!((parsed_tenant, parsed_id), (tenant, id));
        assert!(mac(b"secret", Purpose::Confirm).unwrap().verify_truncated_left(&code).is_ok());
        assert!(mac(b"secret", Purpose::Withdraw).unwrap().verify_truncated_left(&code).is_err());
        assert!(mac(b"another", Purpose::Confirm).unwrap().verify_truncated_left(&code).is_err());
        for wrong in ["", "x", &made[1..], &format!("{made}A"), &made.replace(&made[..1], "=")] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
