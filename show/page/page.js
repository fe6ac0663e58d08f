// A box that scrolls sideways can be reached with the keyboard; one that has
// nothing to scroll is passed over.
(() => {
	"use strict";
	const look = () => {
		for (const box of document.querySelectorAll(".scroll")) {
			if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0; else box.removeAttribute("tabindex");
		}
	};
	look();
	addEventListener("resize", look);
	addEventListener("toggle", look, true);
})();
