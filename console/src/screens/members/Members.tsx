// Who belongs to the account, with which role, and who is invited.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { api, take } from "../../api/client";
import { sentenceOf } from "../../api/error";
import type { Role } from "../../api/may";
import { queries, roleOf, useMay, useMe } from "../../api/session";
import { Button } from "../../parts/Button";
import { ConfirmDialog } from "../../parts/Dialog";
import { Checkbox, SelectField } from "../../parts/Field";
import { ForeignInline } from "../../parts/Foreign";
import { ActionMenu } from "../../parts/Menu";
import { Badge } from "../../parts/Notice";
import { GuardedScreen, Section } from "../../parts/Screen";
import { Empty, Failed, Skeleton } from "../../parts/States";
import { LoadMore, Table, type ColumnOf } from "../../parts/Table";
import { toast } from "../../parts/Toast";
import { plural, Time } from "../../parts/Values";
import { Invite } from "./Invite";
import { invitationsQuery, membersQuery, ROLES, type Invitation, type Member } from "./queries";
import styles from "./Members.module.css";

export default function Members() {
  const may = useMay();
  return (
    <GuardedScreen title="Members" about="Who belongs to this account, and what each may do." needs="members.read">
      {may("members.read") && <People />}
    </GuardedScreen>
  );
}

function People() {
  const members = useInfiniteQuery(membersQuery);
  const invitations = useQuery({ ...invitationsQuery, enabled: members.isSuccess });
  const may = useMay();
  const [inviting, setInviting] = useState(false);
  if (members.isPending) return <Skeleton lines={6} />;
  if (members.error) {
    return <Section><Failed error={members.error} retry={() => void members.refetch()} /></Section>;
  }
  const rows = members.data.pages.flatMap((page) => page.members);
  // Most accounts have one page, whose length needs no words.
  const more = members.data.pages.length > 1 || members.hasNextPage;
  return (
    <>
      <MemberTable
        members={rows}
        onInvite={may("members.write") ? () => setInviting(true) : undefined}
        below={more && <LoadMore shown={`${plural(rows.length, "member")} shown`} hasMore={members.hasNextPage} isLoading={members.isFetchingNextPage} onLoad={() => void members.fetchNextPage()} />}
      />
      {invitations.data && invitations.data.length > 0 && <Invitations invitations={invitations.data} />}
      <Section title="What each role can do">
        <ul className={styles.roles}>
          {ROLES.map((role) => (
            <li key={role.id}>
              <strong>{role.label}</strong> {role.hint}
            </li>
          ))}
        </ul>
      </Section>
      <Invite isOpen={inviting} onClose={() => setInviting(false)} />
    </>
  );
}

async function changeRole(member: Member, role: Role): Promise<void> {
  try {
    await take(api.PATCH("/v1/members/{user_id}", { params: { path: { user_id: member.user_id } }, body: { role } }));
    toast(`${member.email} is ${role} now.`);
  } catch (error) {
    toast(sentenceOf(error), { tone: "bad" });
  } finally {
    await queries.invalidateQueries({ queryKey: ["members"] });
  }
}

function MemberTable({ members, onInvite, below }: { members: readonly Member[]; onInvite: (() => void) | undefined; below: ReactNode }) {
  const me = useMe();
  const may = useMay();
  const [removed, setRemoved] = useState<Member>();
  const mine = roleOf(me);
  /** Admins change everybody but owners. */
  const changes = (member: Member) => may("members.write") && (mine === "owner" || member.role !== "owner");
  const roles = ROLES.filter(({ id }) => mine === "owner" || id !== "owner");
  const columns: ColumnOf<Member>[] = [
    {
      id: "email",
      name: "Email",
      long: true,
      sort: (row) => row.email,
      cell: (row) => (
        <>
          <ForeignInline text={row.email} /> {row.user_id === me.user_id && <Badge>you</Badge>}
        </>
      ),
    },
    {
      id: "role",
      name: "Role",
      cell: (row) =>
        changes(row) ? (
          <SelectField name="role" label={`Role of ${row.email}`} hideLabel options={roles.map(({ id, label }) => ({ id, label }))} value={row.role} onChange={(role) => void changeRole(row, role as Role)} />
        ) : (
          row.role
        ),
    },
    { id: "since", name: "Since", optional: true, cell: (row) => <Time at={row.created_at} /> },
    { id: "more", name: "Actions", cell: (row) => changes(row) && <ActionMenu label={`Actions for ${row.email}`} actions={[{ id: "remove", name: "Remove…", danger: true, run: () => setRemoved(row) }]} /> },
  ];
  return (
    <Section title="Members" flush actions={onInvite && <Button kind="primary" icon="plus" onPress={onInvite}>Invite</Button>}>
      <Table label="Members" rows={members} keyOf={(row) => row.user_id} columns={columns} empty={<Empty icon="members" title="No members" />} />
      {below}
      <Remove member={removed} onClose={() => setRemoved(undefined)} />
    </Section>
  );
}

function Remove({ member, onClose }: { member: Member | undefined; onClose: () => void }) {
  const [revoke, setRevoke] = useState(false);
  return (
    <ConfirmDialog
      title={`Remove ${member?.email ?? "the member"}?`}
      isOpen={member !== undefined}
      onClose={onClose}
      act="Remove the member"
      goes={["their access to this account", "all their sessions, at once"]}
      onConfirm={async () => {
        const { keys } = await take(api.DELETE("/v1/members/{user_id}", { params: { path: { user_id: member?.user_id ?? "" }, query: { revoke_keys: revoke || undefined } } }));
        const made = keys.length === 0 ? "They had made no keys." : `${keys.length} of the keys are theirs and ${revoke ? "were revoked" : "still work"}.`;
        toast(`The member is removed. ${made}`);
        await queries.invalidateQueries({ queryKey: ["members"] });
      }}
    >
      <Checkbox isSelected={revoke} onChange={setRevoke} hint="Whatever uses them stops working.">
        Revoke the keys that they made
      </Checkbox>
    </ConfirmDialog>
  );
}

function Invitations({ invitations }: { invitations: readonly Invitation[] }) {
  const may = useMay();
  const withdraw = async (invitation: Invitation) => {
    try {
      await take(api.DELETE("/v1/invitations/{invitation_id}", { params: { path: { invitation_id: invitation.id } } }));
      toast(`The invitation of ${invitation.email} is withdrawn.`);
    } catch (error) {
      toast(sentenceOf(error), { tone: "bad" });
    } finally {
      await queries.invalidateQueries({ queryKey: ["members"] });
    }
  };
  return (
    <Section title="Invited" flush>
      <Table
        label="Invitations"
        rows={invitations}
        keyOf={(row) => row.id}
        columns={[
          { id: "email", name: "Email", long: true, cell: (row) => <ForeignInline text={row.email} /> },
          { id: "role", name: "Role", cell: (row) => row.role },
          { id: "until", name: "Link works until", optional: true, cell: (row) => <Time at={row.expires_at} /> },
          { id: "withdraw", name: "Actions", cell: (row) => may("members.write") && <Button kind="quiet" aria-label={`Withdraw the invitation of ${row.email}`} onPress={() => void withdraw(row)}>Withdraw</Button> },
        ]}
      />
    </Section>
  );
}
