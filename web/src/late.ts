// What may follow a moment later when the data change: the picture under the hand comes first.

import { Component, type ComponentChildren } from "preact";

/** Rest after which it follows, and the longest that it waits while the data go on changing, in ms. */
const REST = 50;
const LONGEST = 250;

interface Props {
  /** The data that it belongs to. */
  of: unknown;
  children: ComponentChildren;
}

export class Late extends Component<Props> {
  private timer = 0;
  /** When the first change came that is not drawn; 0 for none. */
  private since = 0;

  override shouldComponentUpdate(next: Props): boolean {
    if (next.of === this.props.of) return !this.since;
    const now = performance.now();
    this.since ||= now;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.since = 0;
      this.forceUpdate();
    }, Math.max(0, Math.min(REST, this.since + LONGEST - now)));
    return false;
  }

  override componentWillUnmount(): void {
    clearTimeout(this.timer);
  }

  override render({ children }: Props): ComponentChildren {
    return children;
  }
}
