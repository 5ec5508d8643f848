// Wide tables scroll: the keyboard must reach them. The theme wraps tables after loading.
new MutationObserver(() => {
  const wraps = document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])");
  for (const wrap of wraps) wrap.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
