// What all parts take from the page's chart.js, under one name each.

export const { controls, digits, element, quantity, quartiles, slider, table, tell, text } = chart;
