// Colours of charts, read from the page's style so that light, dark and print agree.

import { useEffect, useState } from "preact/hooks";

export interface Theme {
  ground: string;
  ink: string;
  soft: string;
  line: string;
  of(name: number | string): string;
}

const CURVES = 6;
const KNOWN = new Set([
  ..."c0 c1 c2 c3 c4 c5 compute memory network overhead unknown DRAM LLC L2 L1 ink grey star".split(" "),
]);

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim() || "#777777";
  const colors = new Map<string, string>();
  const of = (name: number | string): string => {
    const key = typeof name === "number" ? `c${name % CURVES}` : KNOWN.has(name) ? name : "unknown";
    if (!colors.has(key)) colors.set(key, read(key));
    return colors.get(key)!;
  };
  return { ground: read("ground"), ink: read("ink"), soft: read("soft"), line: read("line"), of };
}

/** The theme of now; the component draws again when it changes. */
export function useTheme(): Theme {
  const [current, set] = useState(theme);
  useEffect(() => {
    const update = () => set(theme());
    const media = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print")];
    media.forEach((m) => m.addEventListener("change", update));
    document.addEventListener("gambrel-theme", update);
    return () => {
      media.forEach((m) => m.removeEventListener("change", update));
      document.removeEventListener("gambrel-theme", update);
    };
  }, []);
  return current;
}
