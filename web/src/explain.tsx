// A number explains itself: a click shows its formula, source and confidence.

import { createContext } from "preact";
import { useContext, useLayoutEffect, useRef } from "preact/hooks";

export interface Explanation {
  title: string;
  text: string;
  /** Heading and text; empty texts are left out. */
  rows: [string, string | undefined][];
}

export const Explain = createContext<(what: Explanation) => void>(() => {});
export const useExplain = () => useContext(Explain);

export function Explainer({ what, onClose }: { what: Explanation | null; onClose(): void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    // Before the next event: an Escape must find the dialog open.
    const element = dialog.current;
    if (what && element && !element.open) element.showModal();
    if (!what && element?.open) element.close();
  }, [what]);
  return (
    <dialog
      ref={dialog}
      class="explain"
      aria-label="Where this figure comes from"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      {what && (
        <div>
          <p class="soft">{what.title}</p>
          <p class="big">{what.text}</p>
          <dl>
            {what.rows.flatMap(([heading, text]) => (text ? [<dt>{heading}</dt>, <dd>{text}</dd>] : []))}
          </dl>
          <button type="button" onClick={onClose}>close</button>
        </div>
      )}
    </dialog>
  );
}
