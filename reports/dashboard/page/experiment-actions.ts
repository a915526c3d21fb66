/** Putting experiments away, taking them back, and deleting them, which is asked about first. */
import { fill, h } from './dom.ts'
import { annotate, deleteExperiment } from './source.ts'

interface Subject {
  readonly id: string
  readonly trials: number
  readonly archived: boolean
  readonly running: boolean
}

/**
 * Two buttons. @param done told after a change that was kept; @param problem of one that was not
 */
export function experimentActions(
  { id, trials, archived, running }: Subject,
  done: (change: 'archived' | 'restored' | 'deleted') => void,
  problem: (message: string) => void,
): HTMLElement {
  const attempt =
    (work: () => Promise<unknown>, change: 'archived' | 'restored' | 'deleted') => () =>
      void work().then(
        () => done(change),
        (error: Error) => problem(`Failed: ${error.message}`),
      )
  const button = (text: string, label: string, click: () => void, disabled = false) =>
    h(
      'button',
      {
        class: 'quiet link',
        attributes: { type: 'button', 'aria-label': label, disabled },
        on: { click },
      },
      text,
    )
  const archive = archived
    ? button(
        'Restore',
        `Restore ${id}`,
        attempt(() => annotate({ experimentId: id }, { archived: false }), 'restored'),
      )
    : button(
        'Archive',
        `Archive ${id}`,
        attempt(() => annotate({ experimentId: id }, { archived: true }), 'archived'),
      )
  const remove = attempt(() => deleteExperiment(id), 'deleted')
  const ask = () =>
    askFirst(
      `Delete ${id} with its ${trials.toLocaleString('en-US')} trial${trials === 1 ? '' : 's'} permanently?`,
      'Delete',
      remove,
    )
  return h('span', { class: 'actions' }, archive, button('Delete', `Delete ${id}`, ask, running))
}

/** A question with a way out, which is where the focus stands. */
function askFirst(question: string, yes: string, work: () => void): void {
  const dialog = h('dialog', {
    class: 'ask',
    attributes: { 'aria-label': question },
    on: { close: () => dialog.remove() },
  })
  const answer = (text: string, then: () => void) =>
    h(
      'button',
      { attributes: { type: 'button' }, on: { click: () => [dialog.close(), then()] } },
      text,
    )
  fill(
    dialog,
    h('p', {}, question),
    h(
      'p',
      {},
      answer('Cancel', () => {}),
      ' ',
      answer(yes, work),
    ),
  )
  document.body.append(dialog)
  dialog.showModal()
}
