/**
 * The SLO as a line on a chart, which can be dragged or moved with keys. An SLO with several limits
 * has a slider for each beside the chart instead.
 */
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { sloName } from '../../../format.ts'
import type { LatencyAxis } from '../../charts/pareto-chart.ts'
import type { Plot } from '../plot.ts'
import { useLiveApp } from '../section.tsx'

/** Distance from the line within which a press grabs it, pixels. */
const grabDistancePx = 7
/** Factor by which a key changes the limit. */
const factors: Readonly<Record<string, number>> = {
  ArrowLeft: 1 / 1.02,
  ArrowDown: 1 / 1.02,
  ArrowRight: 1.02,
  ArrowUp: 1.02,
  PageDown: 1 / 1.2,
  PageUp: 1.2,
}

interface Handle {
  readonly plot: Plot
  /** Latency axis of the drawn plot. */
  readonly axis: RefObject<LatencyAxis | null>
  /** Whether the line is being dragged; the axis then stays fixed. */
  readonly isHeld: RefObject<boolean>
}

export function SloHandle({ plot, axis, isHeld }: Handle) {
  const app = useLiveApp()
  const handle = useRef<HTMLDivElement>(null)
  const label = useRef<HTMLSpanElement>(null)
  const slo = app.whatIf?.slo
  const limitMs = slo && slo.limits === undefined ? slo.limitMs : undefined

  /** Moves the line to the limit. */
  function placeLine(): void {
    if (!handle.current || !label.current) return
    const { min, max } = axis.current!
    const x =
      limitMs === undefined ? undefined : plot.convertToPixel(Math.min(Math.max(limitMs, min), max))
    handle.current.hidden = x === undefined
    if (x === undefined) return
    handle.current.style.left = `${x}px`
    // Keep the whole label inside the plot.
    const half = label.current.offsetWidth / 2
    label.current.style.marginLeft = `${Math.min(0, plot.figure.clientWidth - x - half) + Math.max(0, half - x)}px`
  }

  function ask(wantedMs: number, dragging: boolean): void {
    if (!app.whatIf) return
    const { min, max } = axis.current!
    const clamped = Math.min(Math.max(wantedMs, min * 1.01), max * 0.99)
    app.setWhatIf({ slo: { ...app.whatIf.slo, limitMs: roundLimit(clamped) } }, dragging)
  }

  function drag({ clientX }: PointerEvent): void {
    const wantedMs = plot.convertFromPixel(clientX - plot.figure.getBoundingClientRect().left)
    if (wantedMs !== undefined && wantedMs > 0) ask(wantedMs, true)
  }

  function hold(): void {
    isHeld.current = true
    const release = new AbortController()
    const until = { signal: release.signal }
    const letGo = () => {
      isHeld.current = false
      release.abort()
      app.schedule()
    }
    addEventListener('pointermove', drag, until)
    addEventListener('pointerup', letGo, until)
    addEventListener('pointercancel', letGo, until)
  }

  function press(event: KeyboardEvent): void {
    const factor = factors[event.key]
    if (limitMs === undefined || factor === undefined) return
    event.preventDefault()
    // If rounding would undo the step, change the last digit.
    const next = roundLimit(limitMs * factor)
    ask(next === limitMs ? limitMs + Math.sign(factor - 1) * getUnit(limitMs) : next, false)
  }

  useLayoutEffect(placeLine)
  useLayoutEffect(() => plot.onDraw(placeLine))
  useLayoutEffect(() => {
    // The line can be grabbed anywhere that no item covers it.
    const isOnLine = (x: number) =>
      !handle.current?.hidden && Math.abs(x - (handle.current?.offsetLeft ?? x)) < grabDistancePx
    plot.onPointer('mousedown', (x, overItem) => {
      if (!overItem && isOnLine(x)) hold()
    })
    plot.onPointer('mousemove', (x, overItem) => {
      if (!overItem && (isHeld.current || isOnLine(x))) plot.cursor = 'ew-resize'
    })
  }, [plot])

  return (
    <div
      ref={handle}
      class="slo-handle"
      role="slider"
      tabIndex={0}
      aria-label="SLO limit, milliseconds"
      aria-orientation="horizontal"
      title="Drag, or use the arrow keys"
      aria-valuemin={axis.current?.min}
      aria-valuemax={axis.current?.max}
      aria-valuenow={slo?.limitMs}
      aria-valuetext={`${slo?.limitMs} milliseconds`}
      onPointerDown={(event) => {
        event.preventDefault()
        event.currentTarget.focus()
        hold()
      }}
      onKeyDown={press}
    >
      <span ref={label} class="slo-label">
        {slo && `◂ SLO ${sloName(slo)} ≤ ${Number(slo.limitMs.toPrecision(4))} ms ▸`}
      </span>
    </div>
  )
}

/** Rounds to two or three digits: 47, 47.5, 130, 0.85. */
const roundLimit = (ms: number): number => Math.round(ms / getUnit(ms)) * getUnit(ms)
const getUnit = (ms: number): number => (ms >= 100 ? 1 : ms >= 20 ? 0.5 : ms >= 2 ? 0.1 : 0.01)
