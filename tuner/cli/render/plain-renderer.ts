/** Plain lines for pipes, CI, NO_COLOR and --plain. */

import { money } from '../../../reports/format.ts'
import type { TuneEvent } from '../../loop/events.ts'
import { countColumns, formatCount, formatDuration, formatSpaceSize, wrapText } from './columns.ts'
import { type Paint, paint } from './glyphs.ts'
import { applyEvent, countTrials, estimateRemainingSeconds, initialProgress } from './progress.ts'
import { flush, type Renderer, type RenderIo } from './render-io.ts'
import { formatResult } from './results.ts'
import { formatReady, formatReason, formatStep, formatTrial } from './trial-line.ts'

/** Prints progress lines on stderr. */
export function createPlainProgress(io: RenderIo): (event: TuneEvent) => void {
  let state = initialProgress
  const say = (text: string, tone?: Paint) => {
    const indent = text.startsWith(' ') ? '    ' : '  '
    for (const line of wrapText(text, countColumns(io.stderr), indent))
      io.stderr.write(`${tone ? paint(line, tone, io.errStyle) : line}\n`)
  }
  // Lines of concurrent trials are interleaved, so each names its trial.
  const whose = (number: number) => (state.maxParallel > 1 ? `#${number} ` : '')
  return (event) => {
    state = applyEvent(state, event)
    switch (event.type) {
      case 'experiment-started': {
        for (const notice of event.notices) say(notice, 'yellow')
        const resumed =
          event.resumedTrials > 0
            ? `, ${formatCount(event.resumedTrials, 'trial')} from before`
            : ''
        say(
          `experiment ${event.experimentId}: at most ${formatCount(event.maxTrials, 'trial')} of ${formatSpaceSize(event.spaceSize)}, seed ${event.seed}${resumed}`,
        )
        break
      }
      case 'trial-started': {
        const eta = estimateRemainingSeconds(state, io.now())
        const remainingTime = eta === undefined ? '' : `, about ${formatDuration(eta)} left`
        const startedTrials = countTrials(state) + state.running.length
        say(
          `trial ${startedTrials} of at most ${state.maxTrials}: #${event.number} ${event.label} (${formatReason(event.suggestion.why, event.attempt)})${remainingTime}`,
        )
        break
      }
      case 'predictor-ready':
        say(`  ${whose(event.number)}ready ${formatReady(event)}: ${event.isolation}`)
        break
      case 'load-step':
        say(`  ${whose(event.number)}${formatStep(event.point, state.slo, event.phase)}`)
        break
      case 'trial-finished': {
        const row = state.rows.at(-1)
        if (!row) break
        const line = formatTrial(row, io.errStyle)
        say(
          `${line.mark} ${line.text}${event.retry ? '; will be tried again' : ''}`,
          line.paint ?? 'dim',
        )
        break
      }
      case 'best-changed':
        say(`best so far: #${event.number} ${event.label}, ${event.costLabel}`)
        break
      case 'confirming': {
        const eta = estimateRemainingSeconds(state, io.now())
        say(`confirming ${event.label}${eta === undefined ? '' : `, about ${formatDuration(eta)}`}`)
        break
      }
      case 'warning':
        say(`warning: ${event.message}`, 'yellow')
        break
      case 'stopped':
        say(
          `stopped (${event.reason}): ${event.detail}; trials cost ${money(state.spent)} by the price book`,
        )
        break
      case 'stop-assessed':
      case 'confirmed':
      case 'recommended':
        break
    }
  }
}

export function createPlainRenderer(io: RenderIo): Renderer {
  const progress = createPlainProgress(io)
  return {
    handle(event) {
      progress(event)
      if (event.type === 'recommended') {
        io.stdout.write(
          `${formatResult(event.recommendation, event.files, io.outStyle, countColumns(io.stdout)).join('\n')}\n`,
        )
      }
    },
    close: () => flush(io.stdout),
  }
}
