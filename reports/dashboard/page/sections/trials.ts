/** The table of trials: only the rows in view exist, so that 100,000 scroll as ten do. */

import { experimentItself } from '../../../../trials/annotation.ts'
import { sloName } from '../../../format.ts'
import { wordsFound, wordsOfField } from '../../../words-found.ts'
import { mostSideBySide } from '../../address.ts'
import type { App } from '../app.ts'
import { fill, h, setAttributes } from '../dom.ts'
import { isPrinting } from '../is-printing.ts'
import type { Section, Shown } from '../section.ts'
import { absent, columnsFor, kinds, rowsOf, type TrialColumn, type TrialRow } from './trial-rows.ts'

const rowHeight = 32
const spare = 8
/** Columns whose figures fit on A4 without a break. */
const mostUnbroken = 13

export function trialsSection(app: App): Section {
  const filters = trialFilters(() => table.arrange())
  const table = new TrialTable(app, filters)
  const element = h(
    'section',
    { attributes: { id: 'trials', 'aria-label': 'Trials' } },
    h('header', {}, h('h2', {}, 'Trials'), filters.element),
    table.element,
  )
  return { element, update: (shown) => table.show(shown) }
}

interface Filters {
  readonly element: HTMLElement
  /** The rows asked for. */
  kept(rows: readonly TrialRow[]): readonly TrialRow[]
  /** Says how many of them are shown. */
  tell(shown: number, all: number): void
}

function trialFilters(onChange: () => void): Filters {
  const search = h('input', {
    attributes: {
      type: 'search',
      id: 'trial-filter',
      placeholder: 'batch 8, T4, out of memory',
      'aria-label': 'Filter the trials',
    },
    on: { input: onChange },
  })
  const state = h(
    'select',
    { attributes: { 'aria-label': 'Which trials' }, on: { change: onChange } },
    h('option', { attributes: { value: '' } }, 'all trials'),
    ...Object.entries(kinds).map(([value, text]) => h('option', { attributes: { value } }, text)),
  )
  const count = h('span', { class: 'count', attributes: { role: 'status' } })
  return {
    element: h('div', { class: 'filters' }, search, state, count),
    kept(rows) {
      const words = wordsOfField(search.value)
      if (words.length === 0 && state.value === '') return rows
      return rows.filter(({ trial, label, kind, outcome, annotation }) => {
        const said = [
          String(trial.number),
          label,
          kinds[kind],
          outcome,
          ...(annotation?.tags ?? []),
          annotation?.note,
        ]
        return (state.value === '' || kind === state.value) && wordsFound(words, said)
      })
    },
    tell(shown, all) {
      const [some, whole] = [shown.toLocaleString('en-US'), all.toLocaleString('en-US')]
      fill(count, shown === all ? whole : `${some} of ${whole}`)
    },
  }
}

class TrialTable {
  private rows: readonly TrialRow[] = []
  /** Those that are kept, in their order. */
  private view: readonly TrialRow[] = []
  private columns: readonly TrialColumn[] = []
  private sort = { column: 0, descending: false }
  private drawn = ''
  private headed = ''
  private readonly head = h('tr', {})
  private readonly above = h(
    'tr',
    { class: 'spacer', attributes: { 'aria-hidden': 'true' } },
    h('td', {}),
  )
  private readonly below = h(
    'tr',
    { class: 'spacer', attributes: { 'aria-hidden': 'true' } },
    h('td', {}),
  )
  private readonly body = h('tbody', {})
  private readonly grid = h(
    'table',
    {},
    h('caption', { class: 'unseen' }, 'Trials'),
    h('thead', {}, this.head),
    this.body,
  )
  readonly element = h(
    'div',
    {
      class: 'scroller',
      attributes: { tabindex: 0, role: 'group', 'aria-label': 'Table of trials' },
      on: { scroll: () => this.draw() },
    },
    this.grid,
  )

  constructor(
    private readonly app: App,
    private readonly filters: Filters,
  ) {}

  show(shown: Shown): void {
    const { slo } = shown.whatIf
    const qualities = shown.candidates.some((c) => c.quality !== undefined)
    const tokens = shown.candidates.some((c) => c.tokens)
    const tags = [...shown.annotations.keys()].some((trial) => trial !== experimentItself)
    const heads = `${sloName(slo)} ${qualities} ${tokens} ${tags} ${slo.limits ? slo.limitMs : ''}`
    if (heads !== this.headed) {
      this.headed = heads
      this.columns = columnsFor(slo, { qualities, tokens, tags })
      this.element.classList.toggle('many', this.columns.length > mostUnbroken)
      this.drawHead()
    }
    this.rows = rowsOf(shown)
    this.arrange()
  }

  arrange(): void {
    const { rows, sort } = this
    const { key } = this.columns[sort.column]!
    const direction = sort.descending ? -1 : 1
    const keyed = this.filters.kept(rows).map((row) => ({ row, key: key(row) }))
    // What has no value stands last, whichever way the rest is sorted.
    keyed.sort((a, b) =>
      a.key === b.key
        ? 0
        : a.key === absent
          ? 1
          : b.key === absent
            ? -1
            : a.key < b.key
              ? -direction
              : direction,
    )
    this.view = keyed.map(({ row }) => row)
    this.filters.tell(this.view.length, rows.length)
    setAttributes(this.grid, { 'aria-rowcount': this.view.length + 1 })
    this.drawn = ''
    this.draw()
  }

  /** The rows in view; on paper from the first one on, up to 500. */
  draw(): void {
    const { view, element, above, below } = this
    const whole = isPrinting()
    const from = whole ? 0 : Math.max(0, Math.floor(element.scrollTop / rowHeight) - spare)
    const shown = whole ? 500 : Math.ceil((element.clientHeight || 400) / rowHeight) + 2 * spare
    const to = Math.min(view.length, from + shown)
    const key = `${from} ${to} ${[...this.app.sideBySide]}`
    if (key === this.drawn) return
    this.drawn = key
    above.style.height = `${from * rowHeight}px`
    below.style.height = whole ? '0' : `${(view.length - to) * rowHeight}px`
    fill(this.body, above, ...view.slice(from, to).map((row, i) => this.line(row, from + i)), below)
  }

  private drawHead(): void {
    const { sort } = this
    const heads = this.columns.map((column, i) => {
      const sorted = sort.column === i
      const button = h(
        'button',
        { class: 'quiet', attributes: { type: 'button' }, on: { click: () => this.sortBy(i) } },
        column.name,
        sorted && (sort.descending ? ' ↓' : ' ↑'),
      )
      // Chromium leaves buttons out of a table's head where a page repeats it: paper takes the
      // name.
      const order = sorted ? (sort.descending ? 'descending' : 'ascending') : 'none'
      return h(
        'th',
        {
          class: column.numeric ? 'n' : undefined,
          attributes: { scope: 'col', 'aria-sort': order, 'data-name': column.name },
        },
        button,
      )
    })
    fill(
      this.head,
      h(
        'th',
        { class: 'pick', attributes: { scope: 'col' } },
        h('span', { class: 'unseen' }, 'side by side'),
      ),
      ...heads,
    )
  }

  private sortBy(column: number): void {
    this.sort = { column, descending: this.sort.column === column && !this.sort.descending }
    this.drawHead()
    this.arrange()
    ;(this.head.children[column + 1]?.firstElementChild as HTMLElement | null)?.focus()
  }

  private line(row: TrialRow, index: number): HTMLElement {
    const open = () => this.app.actions.openTrial(row.trial.number)
    const cells = this.columns.map((column, i) => {
      const text = column.cell(row)
      return h(
        'td',
        {
          class: column.numeric ? 'n' : undefined,
          attributes: { title: text.length > 24 ? text : undefined },
        },
        i === 1
          ? h(
              'button',
              {
                class: 'quiet link',
                attributes: { type: 'button', 'aria-label': `Open trial ${text}` },
              },
              text,
            )
          : text,
      )
    })
    return h(
      'tr',
      { class: row.kind, attributes: { 'aria-rowindex': index + 2 }, on: { click: open } },
      h(
        'td',
        { class: 'pick', on: { click: (event) => event.stopPropagation() } },
        this.pick(row.trial.number),
      ),
      ...cells,
    )
  }

  /** Puts a trial beside others, while there is room. */
  private pick(number: number): HTMLElement {
    const { sideBySide } = this.app
    const checked = sideBySide.has(number)
    const change = () => {
      if (checked) sideBySide.delete(number)
      else sideBySide.add(number)
      this.app.showAgain()
    }
    return h('input', {
      attributes: {
        type: 'checkbox',
        checked,
        disabled: !checked && sideBySide.size >= mostSideBySide,
        'aria-label': `Compare trial ${number} with others`,
      },
      on: { change },
    })
  }
}
