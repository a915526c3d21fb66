/**
 * The SLO as a line on a chart, which can be dragged or moved by keys. Several limits have a slider
 * each beside the chart, and no line of their own.
 */
import { sloName } from '../../../format.ts'
import type { LatencyAxis } from '../../charts/pareto-chart.ts'
import type { App } from '../app.ts'
import type { Chart } from '../chart.ts'
import { h, setAttributes } from '../dom.ts'

/** Pixels around the line that take it. */
const reach = 7
/** What a key does to the limit. */
const steps: Readonly<Record<string, number>> = {
  ArrowLeft: 1 / 1.02,
  ArrowDown: 1 / 1.02,
  ArrowRight: 1.02,
  ArrowUp: 1.02,
  PageDown: 1 / 1.2,
  PageUp: 1.2,
}

export class SloHandle {
  /** While it is dragged the axis under it stays. */
  held = false
  private readonly label = h('span', { class: 'slo-label' })
  private readonly handle = h(
    'div',
    {
      class: 'slo-handle',
      attributes: {
        role: 'slider',
        tabindex: 0,
        'aria-label': 'SLO limit, milliseconds',
        'aria-orientation': 'horizontal',
        title: 'Drag, or use the arrow keys',
      },
    },
    this.label,
  )

  /** @param axis the chart's present latency axis */
  constructor(
    private readonly app: App,
    private readonly chart: Chart,
    private readonly axis: () => LatencyAxis,
  ) {
    chart.element.append(this.handle)
    chart.onDraw(() => this.place())
    this.listenToPointer()
    this.handle.addEventListener('keydown', (event) => this.press(event))
  }

  /** Puts the line where the limit is. */
  place(): void {
    const { handle, label, chart } = this
    const { min, max } = this.axis()
    const slo = this.app.whatIf?.slo
    const x =
      slo && slo.limits === undefined
        ? chart.pixelOf(Math.min(Math.max(slo.limitMs, min), max))
        : undefined
    handle.hidden = x === undefined
    if (x === undefined || slo === undefined) return
    handle.style.left = `${x}px`
    label.textContent = `◂ SLO ${sloName(slo)} ≤ ${Number(slo.limitMs.toPrecision(4))} ms ▸`
    // The label stays whole on a narrow screen, wherever its line stands.
    const half = label.offsetWidth / 2
    label.style.marginLeft = `${Math.min(0, chart.element.clientWidth - x - half) + Math.max(0, half - x)}px`
    setAttributes(handle, {
      'aria-valuemin': min,
      'aria-valuemax': max,
      'aria-valuenow': slo.limitMs,
      'aria-valuetext': `${slo.limitMs} milliseconds`,
    })
  }

  private ask(limitMs: number, dragging: boolean): void {
    const { app } = this
    if (!app.whatIf) return
    const { min, max } = this.axis()
    const clamped = Math.min(Math.max(limitMs, min * 1.01), max * 0.99)
    app.ask({ slo: { ...app.whatIf.slo, limitMs: tidy(clamped) } }, dragging)
    this.place()
  }

  private listenToPointer(): void {
    const { handle, chart } = this
    handle.addEventListener('pointerdown', (event) => {
      event.preventDefault()
      handle.focus()
      this.hold()
    })
    // The line itself can be taken too, wherever no point lies on it.
    const onLine = (x: number) => !handle.hidden && Math.abs(x - handle.offsetLeft) < reach
    chart.onPointer('mousedown', (x, overItem) => {
      if (!overItem && onLine(x)) this.hold()
    })
    chart.onPointer('mousemove', (x, overItem) => {
      if (!overItem && (this.held || onLine(x))) chart.cursor = 'ew-resize'
    })
  }

  private hold(): void {
    this.held = true
    addEventListener('pointermove', this.drag)
    addEventListener('pointerup', this.release)
    addEventListener('pointercancel', this.release)
  }

  private readonly drag = (event: PointerEvent): void => {
    const limit = this.chart.valueAt(
      event.clientX - this.chart.element.getBoundingClientRect().left,
    )
    if (limit !== undefined && limit > 0) this.ask(limit, true)
  }

  private readonly release = (): void => {
    this.held = false
    removeEventListener('pointermove', this.drag)
    removeEventListener('pointerup', this.release)
    removeEventListener('pointercancel', this.release)
    this.app.schedule()
  }

  private press(event: KeyboardEvent): void {
    const limit = this.app.whatIf?.slo.limitMs
    const step = steps[event.key]
    if (limit === undefined || step === undefined) return
    event.preventDefault()
    // A step that rounding would undo is one of the last digit.
    const next = tidy(limit * step)
    this.ask(next === limit ? limit + Math.sign(step - 1) * unitOf(limit) : next, false)
  }
}

/** Two or three digits: 47, 47.5, 130, 0.85. */
const tidy = (ms: number): number => Math.round(ms / unitOf(ms)) * unitOf(ms)
const unitOf = (ms: number): number => (ms >= 100 ? 1 : ms >= 20 ? 0.5 : ms >= 2 ? 0.1 : 0.01)
