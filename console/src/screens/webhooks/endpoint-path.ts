/** The address of an endpoint's screen. */
export const endpointPath = (id: string): string => `/console/webhooks/${id}`;
