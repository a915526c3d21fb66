/**
 * The page on paper: one A4 report under the question that is asked, with every chart drawn,
 * wherever the reader had scrolled.
 */
import type { App } from './app.ts'
import { listPlots } from './plot.ts'

/** Makes the page ready for paper before it is printed, and as it was after. */
export function printWell(app: App): void {
  let opened: HTMLDetailsElement[] = []
  addEventListener('beforeprint', () => {
    app.print(true)
    opened = [...document.querySelectorAll<HTMLDetailsElement>('details.more:not([open])')]
    for (const details of opened) details.open = true
    for (const plot of listPlots()) plot.toPaper()
  })
  addEventListener('afterprint', () => {
    for (const details of opened) details.open = false
    for (const plot of listPlots()) plot.clearPaper()
    app.print(false)
  })
}
