// Inside a grid the arrow keys move the focus, and Tab leaves: links and times in its cells are no tab stops of their own.
import { createContext, useContext } from "react";

export const ArrowFocus = createContext(false);

/** The `tabIndex` of something that can have the focus, here. */
export const useTabIndex = (otherwise?: number): number | undefined => (useContext(ArrowFocus) ? -1 : otherwise);
