-- Who sent an invitation: it ends with them, while it is open. Not known of invitations from before this column.
ALTER TABLE invitations ADD COLUMN created_by_user UUID;
