// What the billing screen reads.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { api, take, type Schemas } from "../../api/client";

export type LedgerEntry = Schemas["LedgerEntry"];
export type LedgerType = "credit" | "charge" | undefined;
const PAGE = 25;

export const balanceQuery = queryOptions({ queryKey: ["billing"], queryFn: () => take(api.GET("/v1/billing")) });

export const checkoutQuery = (id: string) =>
  queryOptions({
    queryKey: ["checkout", id],
    queryFn: () => take(api.GET("/v1/billing/checkout/{session_id}", { params: { path: { session_id: id } } })),
    retry: false,
  });

/** The ledger, newest first, each bulk run as one entry; with `batchId` the entries of one run. */
export const ledgerQuery = (type: LedgerType, batchId?: string) =>
  infiniteQueryOptions({
    queryKey: ["ledger", type, batchId],
    queryFn: ({ pageParam, signal }) =>
      take(
        api.GET("/v1/billing/ledger", {
          params: { query: { type, limit: PAGE, cursor: pageParam, ...(batchId ? { batch_id: batchId } : { group: "batch" as const }) } },
          signal,
        }),
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_cursor || undefined,
  });
