// The saved views of a member, and the form that saves one.
import { useState } from "react";

import { sentenceOf } from "../../api/error";
import { useMe } from "../../api/session";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { TextField } from "../../parts/Field";
import { Form } from "../../parts/Form";
import { Link } from "../../parts/Link";
import { toast } from "../../parts/Toast";
import styles from "./Explore.module.css";
import type { Sort } from "./objects";
import { removeView, saveView, viewsOf } from "./saved-views";

export function Views({ q, sort }: { q: string; sort: Sort }) {
  const me = useMe();
  const [views, setViews] = useState(() => viewsOf(me));
  const [naming, setNaming] = useState(false);
  const shown = views.find((view) => view.q === q && view.sort === sort);
  const remove = (name: string) => {
    const gone = views.find((view) => view.name === name);
    try {
      setViews(removeView(me, name));
    } catch (error) {
      return void toast(sentenceOf(error), { tone: "bad" });
    }
    toast(`The view ${name} is gone.`, { undo: () => gone && setViews(saveView(me, gone)) });
  };
  return (
    <div className={styles.views}>
      {views.length > 0 && (
        <ul aria-label="Saved views">
          {views.map((view) => (
            <li key={view.name} data-shown={view === shown || undefined}>
              <Link to="/console/explore" search={{ q: view.q, sort: view.sort }}>
                {view.name}
              </Link>
            </li>
          ))}
        </ul>
      )}
      {shown ? (
        <Button kind="quiet" onPress={() => remove(shown.name)}>
          {`Remove the view ${shown.name}`}
        </Button>
      ) : (
        <Button kind="quiet" icon="plus" onPress={() => setNaming(true)}>
          Save this view
        </Button>
      )}
      <Dialog title="Save this view" isOpen={naming} onClose={() => setNaming(false)}>
        <Form
          submit="Save the view"
          fields={["name"]}
          onSubmit={async ({ name = "" }) => {
            setViews(saveView(me, { name: name.trim(), q, sort }));
            setNaming(false);
          }}
        >
          <TextField name="name" label="Name" isRequired maxLength={60} autoFocus autoComplete="off" hint="Views are kept in this browser. To share one, send its address." />
        </Form>
      </Dialog>
    </div>
  );
}
