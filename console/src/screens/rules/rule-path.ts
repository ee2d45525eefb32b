/** The address of a rule. */
export const rulePath = (id: string): string => `/console/rules/${id}`;
