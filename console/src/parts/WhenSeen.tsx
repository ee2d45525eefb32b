// What asks the service only once somebody could see it: for what is below the fold, and for what has a request of its own in each row.
import { useEffect, useRef, useState, type ReactNode } from "react";

/** It is asked for a little before it comes into sight. */
const AHEAD = "160px";

export function WhenSeen({ placeholder, children }: { placeholder: ReactNode; children: ReactNode }) {
  const [isSeen, setSeen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!place.current) return;
    const observer = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && setSeen(true), { rootMargin: AHEAD });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [isSeen]);
  return isSeen ? <>{children}</> : <div ref={place}>{placeholder}</div>;
}
