// Deletes an object, saying what goes with it.
import { useNavigate } from "@tanstack/react-router";

import { api, take, type Schemas } from "../../api/client";
import { queries } from "../../api/session";
import { ConfirmDialog } from "../../parts/Dialog";
import { toast } from "../../parts/Toast";
import { plural } from "../../parts/Values";

interface Props {
  objectId: string;
  object: Schemas["ObjectAnalysis"];
  isOpen: boolean;
  onClose: () => void;
}

export function DeleteObject({ objectId, object, isOpen, onClose }: Props) {
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      title="Delete this object?"
      isOpen={isOpen}
      onClose={onClose}
      act="Delete the object"
      goes={[
        `${plural(object.event_count, "event")} and the summary of older ones`,
        `${plural(object.analysis.length, "answer")} and all earlier ones`,
        "its labels and reviews, open ones too",
        "the firings and webhook deliveries about it",
      ]}
      onConfirm={async () => {
        await take(api.DELETE("/v1/objects/{object_id}", { params: { path: { object_id: objectId } } }));
        await navigate({ to: "/console/explore" as string });
        queries.removeQueries({ queryKey: ["object", objectId] });
        void queries.invalidateQueries({ queryKey: ["objects"] });
        toast("The object is deleted.");
      }}
    >
      <p>Its entries in the ledger stay. If the object is heard of again, it starts anew. This cannot be undone.</p>
    </ConfirmDialog>
  );
}
