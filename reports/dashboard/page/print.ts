/**
 * Prints the page as an A4 report of the current question, with every chart drawn, also those that
 * have not been scrolled into view.
 */
import type { App } from './app.ts'
import { listPlots } from './plot.ts'

/** Prepares the page before printing, and restores it afterwards. */
export function preparePrinting(app: App): void {
  let openedDetails: HTMLDetailsElement[] = []
  addEventListener('beforeprint', () => {
    app.print(true)
    openedDetails = [...document.querySelectorAll<HTMLDetailsElement>('details.more:not([open])')]
    for (const details of openedDetails) details.open = true
    for (const plot of listPlots()) plot.drawForPrint()
  })
  addEventListener('afterprint', () => {
    for (const details of openedDetails) details.open = false
    for (const plot of listPlots()) plot.clearPrint()
    app.print(false)
  })
}
