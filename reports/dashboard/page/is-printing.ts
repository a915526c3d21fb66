/**
 * Between the browser's `beforeprint` and `afterprint`: charts are light, tables whole, what is one
 * click away stands open.
 */
export const isPrinting = (): boolean => document.documentElement.dataset.printing !== undefined
