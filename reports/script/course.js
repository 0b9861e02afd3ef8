// The list of lessons.
bindBar();
document.documentElement.dataset.live = "";
