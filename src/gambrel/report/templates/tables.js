"use strict";
// Tables of a page: a heading sorts by its column, a field filters rows. Cells without a number
// that are in a column of numbers are unknown and stay last.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const key = (row, i) => {
    const value = row.cells[i].dataset.value;
    return value === undefined ? null : Number(value);
  };
  table.querySelectorAll("thead button").forEach((button, i) => {
    button.addEventListener("click", () => {
      const heading = button.parentElement;
      const up = heading.getAttribute("aria-sort") === "descending";
      for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const numbers = rows.some((row) => key(row, i) !== null);
      const order = (a, b) => {
        if (!numbers) {
          const by = a.cells[i].textContent.localeCompare(b.cells[i].textContent);
          return up ? -by : by;
        }
        const [x, y] = [key(a, i), key(b, i)];
        if (x === null || y === null) return (x === null) - (y === null);
        return up ? x - y : y - x;
      };
      body.append(...[...rows].sort(order));
    });
  });
  const field = table.parentElement.previousElementSibling;
  if (field && field.type === "search") {
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  }
}
