// Tabs: several views of one thing. Arrow keys move between them.
import { useState, type ReactNode } from "react";
import { Tab, TabList, TabPanel, Tabs as AriaTabs } from "react-aria-components/Tabs";

import styles from "./Tabs.module.css";

interface TabOf {
  id: string;
  name: string;
  content: ReactNode;
  /** Once shown, it stays in the page while another tab is shown, with what was typed into it. */
  keep?: boolean;
}

interface Props {
  label: string;
  tabs: TabOf[];
  selected?: string;
  onSelect?: (id: string) => void;
}

export function Tabs({ label, tabs, selected, onSelect }: Props) {
  const [shown, setShown] = useState<readonly string[]>([]);
  if (selected !== undefined && !shown.includes(selected)) setShown([...shown, selected]);
  return (
    <AriaTabs className={styles.tabs} selectedKey={selected} onSelectionChange={(key) => onSelect?.(String(key))}>
      <TabList aria-label={label} className={styles.list}>
        {tabs.map((tab) => (
          <Tab key={tab.id} id={tab.id} className={styles.tab}>
            {tab.name}
          </Tab>
        ))}
      </TabList>
      {tabs.map((tab) => (
        <TabPanel key={tab.id} id={tab.id} className={styles.panel} shouldForceMount={tab.keep && shown.includes(tab.id)}>
          {tab.content}
        </TabPanel>
      ))}
    </AriaTabs>
  );
}
