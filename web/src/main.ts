import "./styles/base.css";
import "./styles/library.css";
import "./styles/player.css";
import "./styles/overlay.css";
import "./styles/details.css";
import "./styles/parts.css";
import "./styles/dashboard.css";
import "./styles/casts.css";
import "./styles/touch.css";
import { startRouter } from "./router.ts";
import { installDropZone } from "./upload/drop.ts";
import { watchJobs } from "./upload/queue.ts";
import { installTray } from "./upload/tray.ts";

const app = document.querySelector<HTMLElement>("#app");
if (!app) throw new Error("index.html has no #app");

// It is relative to the address of the page, which changes with every link that is followed.
const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
icon?.setAttribute("href", icon.href);

installTray();
installDropZone();
startRouter(app);
watchJobs(new AbortController().signal).catch(() => {});
