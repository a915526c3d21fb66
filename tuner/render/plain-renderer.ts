/** Plain lines: for pipes, CI, NO_COLOR and whoever prefers a log. */

import { money } from '../../reports/format.ts'
import type { TuneEvent } from '../loop/events.ts'
import { columnsOf, counted, duration, spaceText, wrap } from './columns.ts'
import { type Paint, paint } from './glyphs.ts'
import { advance, countedTrials, etaSeconds, noProgress } from './progress.ts'
import { flushed, type Renderer, type RenderIo } from './render-io.ts'
import { resultLines } from './results.ts'
import { readyWords, stepLine, trialLine, whyText } from './trial-line.ts'

/** Progress lines on stderr, one call an event. */
export function createPlainProgress(io: RenderIo): (event: TuneEvent) => void {
  let state = noProgress
  const say = (text: string, tone?: Paint) => {
    const indent = text.startsWith(' ') ? '    ' : '  '
    for (const line of wrap(text, columnsOf(io.stderr), indent))
      io.stderr.write(`${tone ? paint(line, tone, io.errStyle) : line}\n`)
  }
  // Lines of trials that run at the same time are mixed.
  const whose = (number: number) => (state.atOnce > 1 ? `#${number} ` : '')
  return (event) => {
    state = advance(state, event)
    switch (event.type) {
      case 'experiment-started': {
        for (const notice of event.notices) say(notice, 'yellow')
        const resumed =
          event.resumedTrials > 0 ? `, ${counted(event.resumedTrials, 'trial')} from before` : ''
        say(
          `experiment ${event.experimentId}: at most ${counted(event.maxTrials, 'trial')} of ${spaceText(event.spaceSize)}, seed ${event.seed}${resumed}`,
        )
        break
      }
      case 'trial-started': {
        const eta = etaSeconds(state, io.now())
        const left = eta === undefined ? '' : `, about ${duration(eta)} left`
        const asked = countedTrials(state) + state.running.length
        say(
          `trial ${asked} of at most ${state.maxTrials}: #${event.number} ${event.label} (${whyText(event.suggestion.why, event.attempt)})${left}`,
        )
        break
      }
      case 'predictor-ready':
        say(`  ${whose(event.number)}ready ${readyWords(event)}: ${event.isolation}`)
        break
      case 'load-step':
        say(`  ${whose(event.number)}${stepLine(event.point, state.slo, event.phase)}`)
        break
      case 'trial-finished': {
        const row = state.rows.at(-1)
        if (!row) break
        const line = trialLine(row, io.errStyle)
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
        const eta = etaSeconds(state, io.now())
        say(`confirming ${event.label}${eta === undefined ? '' : `, about ${duration(eta)}`}`)
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
          `${resultLines(event.recommendation, event.files, io.outStyle, columnsOf(io.stdout)).join('\n')}\n`,
        )
      }
    },
    close: () => flushed(io.stdout),
  }
}
