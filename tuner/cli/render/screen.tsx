/** @jsxRuntime automatic */
/**
 * The live screen (ink) on stderr: finished trials scroll, running trials, the best and the plot
 * stay visible.
 */
import { Box, render, Static, Text } from 'ink'
import { useEffect, useState } from 'react'
import { computeCertaintyPercent, money, sloText } from '../../../reports/format.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { TuneEvent } from '../../loop/events.ts'
import { wasDisturbed } from '../../loop/trial-status.ts'
import { countColumns, formatDuration, wrapText } from './columns.ts'
import { glyph, type Style } from './glyphs.ts'
import {
  applyEvent,
  countTrials,
  estimateRemainingSeconds,
  initialProgress,
  type Progress,
  type RunningTrial,
} from './progress.ts'
import { flush, type Renderer, type RenderIo } from './render-io.ts'
import { formatResult } from './results.ts'
import { drawScatter } from './scatter.ts'
import { formatPreparation, formatReason, formatStep, formatTrial } from './trial-line.ts'

const redrawMs = 100
const plotHeight = 7
const maxSteps = 4

/** State container between renderer and screen. */
interface Feed {
  readonly state: () => Progress
  readonly subscribe: (listener: () => void) => () => void
}

function RunningTrialView({
  trial,
  state,
  style,
  nowMs,
}: {
  trial: RunningTrial
  state: Progress
  style: Style
  nowMs: number
}) {
  const seconds = formatDuration((nowMs - trial.startedAtMs) / 1000)
  return (
    <Box flexDirection="column">
      <Box columnGap={1}>
        <Text color="cyan">{glyph('running', style)}</Text>
        <Text>
          {trial.confirming ? 'confirming ' : ''}#{trial.number} {trial.label}{' '}
          <Text dimColor>{`${formatReason(trial.suggestion.why, trial.attempt)}, ${seconds}`}</Text>
        </Text>
      </Box>
      <Box flexDirection="column" paddingLeft={2}>
        <Text dimColor>
          {trial.isolation
            ? `${trial.prepared ? `${formatPreparation(trial.prepared)}; ` : ''}${trial.isolation}`
            : 'starting'}
        </Text>
        {trial.steps.slice(-maxSteps).map((step, i) => (
          <Text
            key={`${trial.number}-${trial.steps.length - i}`}
            color={state.slo && step.point.sloMs > state.slo.limitMs ? 'yellow' : undefined}
          >
            {formatStep(step.point, state.slo, step.phase)}
          </Text>
        ))}
      </Box>
    </Box>
  )
}

function Screen({
  state,
  style,
  columns,
  nowMs,
}: {
  state: Progress
  style: Style
  columns: number
  nowMs: number
}) {
  const eta = estimateRemainingSeconds(state, nowMs)
  const trialCount = Math.min(
    state.maxTrials,
    countTrials(state) + state.running.filter((trial) => !trial.confirming).length,
  )
  const certainty =
    (state.probabilityBetterExists ?? 1) > 0.99
      ? ''
      : `, ${computeCertaintyPercent(1 - (state.probabilityBetterExists ?? 1))} % certain`
  const bestRow = state.rows.find((row) => row.trial.number === state.best?.number)
  const toPoint = (row: (typeof state.rows)[number]) => ({
    pricePerHour: row.pricePerHour,
    capacityRps: row.trial.state === 'complete' ? row.trial.measurement.capacityRps : 0,
  })
  const plot = drawScatter(
    state.rows.map(toPoint),
    { width: Math.min(columns - 2, 72), height: plotHeight },
    bestRow && toPoint(bestRow),
    style,
  )
  const disturbedRows = listDisturbedRows(state.rows)
  const lines = state.rows.filter(({ trial }) => !wasDisturbed(trial))
  return (
    <Box flexDirection="column">
      <Static items={state.stopped ? [...lines, ...disturbedRows] : lines}>
        {(row) => {
          const line = formatTrial(row, style)
          return (
            <Box key={row.trial.number} columnGap={1}>
              <Text color={line.paint}>{line.mark}</Text>
              <Text>{line.text}</Text>
            </Box>
          )
        }}
      </Static>
      {state.stopped ? null : (
        <Box flexDirection="column" marginTop={1}>
          <Text>
            <Text bold>{state.name}</Text>
            {`  trial ${trialCount} of at most ${state.maxTrials}, ${formatDuration((nowMs - state.startedAtMs) / 1000)}`}
            {eta === undefined ? '' : `, about ${formatDuration(eta)} left`}
            {`, ${state.provenance}, seed ${state.seed}`}
          </Text>
          <Text>
            {state.slo ? `SLO ${sloText(state.slo)}  ` : ''}
            {state.best
              ? `best: #${state.best.number} ${state.best.label}, ${state.best.costLabel}${certainty}`
              : 'no configuration meets it yet'}
            {`  (trials cost ${money(state.spent)})`}
          </Text>
          {disturbedRows.map((row) => (
            <Text key={`busy ${row.trial.number}`} color="yellow">
              {`${formatTrial(row, style).mark} ${formatTrial(row, style).text}; will be tried again`}
            </Text>
          ))}
          {state.running.map((trial) => (
            <RunningTrialView
              key={trial.number}
              trial={trial}
              state={state}
              style={style}
              nowMs={nowMs}
            />
          ))}
          {plot.length > 0 ? <Text dimColor>{plot.join('\n')}</Text> : null}
          {plot.length > 0 ? (
            <Text dimColor>
              {'estimated capacity against price: cheaper on the left, faster at the top'}
            </Text>
          ) : null}
        </Box>
      )}
    </Box>
  )
}

/** Lists the last disturbed attempt at each configuration that no later trial has measured. */
function listDisturbedRows(rows: Progress['rows']): Progress['rows'] {
  const last = new Map(rows.map((row) => [configurationKey(row.trial.configuration), row]))
  return [...last.values()].filter(({ trial }) => wasDisturbed(trial))
}

function Live({ feed, io }: { feed: Feed; io: RenderIo }) {
  const [state, setState] = useState(feed.state())
  const [nowMs, setNow] = useState(io.now())
  useEffect(() => {
    const unsubscribe = feed.subscribe(() => setState(feed.state()))
    const clock = setInterval(() => setNow(io.now()), 1000)
    return () => {
      clearInterval(clock)
      unsubscribe()
    }
  }, [feed, io])
  return (
    <Screen
      state={state}
      style={io.errStyle}
      columns={countColumns(io.stderr)}
      nowMs={Math.max(nowMs, state.startedAtMs)}
    />
  )
}

export function createScreenRenderer(io: RenderIo): Renderer {
  let state = initialProgress
  const listeners = new Set<() => void>()
  let redrawTimer: NodeJS.Timeout | undefined
  const notify = () => {
    redrawTimer = undefined
    for (const listener of listeners) listener()
  }
  const feed: Feed = {
    state: () => state,
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
  let app: ReturnType<typeof render> | undefined
  let results: string[] = []

  return {
    handle(event: TuneEvent) {
      state = applyEvent(state, event)
      if (event.type === 'experiment-started') {
        for (const notice of event.notices)
          io.stderr.write(`${wrapText(notice, countColumns(io.stderr)).join('\n')}\n`)
        const stream = io.stderr as NodeJS.WriteStream
        app = render(<Live feed={feed} io={io} />, {
          stdout: stream,
          stderr: stream,
          exitOnCtrlC: false,
          patchConsole: false,
        })
      }
      if (event.type === 'recommended')
        results = formatResult(
          event.recommendation,
          event.files,
          io.outStyle,
          countColumns(io.stdout),
        )
      redrawTimer ??= setTimeout(notify, redrawMs)
    },
    async close() {
      clearTimeout(redrawTimer)
      notify()
      await new Promise((resolve) => setImmediate(resolve))
      app?.unmount()
      await app?.waitUntilExit()
      for (const warning of state.warnings) io.stderr.write(`warning: ${warning}\n`)
      if (results.length > 0) io.stdout.write(`${results.join('\n')}\n`)
      await flush(io.stdout)
    },
  }
}
