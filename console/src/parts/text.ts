// What a signal asks and its criteria may be JSON, which the analyzer reads as it stands; people read it so, too.

export const textOf = (value: unknown): string => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
