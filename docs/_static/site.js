// What Furo leaves out for people who use a keyboard or a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  for (const part of document.querySelectorAll("pre, .table-wrapper")) part.tabIndex = 0; // they may scroll
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) caption.setAttribute("aria-level", "2");
  for (const [selector, label] of [[".sidebar-drawer", "All pages"], [".toc-drawer", "On this page"]])
    document.querySelector(selector)?.setAttribute("aria-label", label);
});
