/** `tune dashboard`: serves the page until Ctrl-C. */
import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { createDashboard } from '../../../dashboard/dashboard-server.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { listenForInterrupts } from '../../signals.ts'
import { createUnknownExperimentError, openExistingStore } from '../open-existing.ts'

export interface DashboardFlags {
  readonly db: string
  readonly port: string
  readonly readOnly?: boolean
}

export async function dashboard(
  id: string | undefined,
  { db, port: asked, readOnly }: DashboardFlags,
): Promise<number> {
  const port = Number(asked)
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) {
    throw new UserError(
      `--port ${asked} is not a port`,
      'use a number from 0 (any free port) to 65535',
      exitCodes.usage,
    )
  }
  const reader = await openExistingStore(db)
  const experiments = await reader.list()
  if (experiments.length === 0 || (id !== undefined && !experiments.some((e) => e.id === id))) {
    await reader.close()
    throw createUnknownExperimentError([...experiments].reverse(), id)
  }
  const token = readOnly ? undefined : randomBytes(24).toString('base64url')
  const { server, close } = await createDashboard(
    reader,
    createHostContext(await inspectMachine()),
    {
      ...(id !== undefined && { chosen: id }),
      ...(token !== undefined && { edits: { path: db, token } }),
    },
  )
  const interrupt = listenForInterrupts(() => {})
  try {
    await server.listen({ host: '127.0.0.1', port }).catch((error: NodeJS.ErrnoException) => {
      throw error.code === 'EADDRINUSE'
        ? new UserError(
            `port ${port} is in use`,
            'another dashboard may be running; choose another port with --port, or 0 for any free port',
          )
        : error
    })
    const { port: given } = server.server.address() as AddressInfo
    process.stdout.write(
      `http://127.0.0.1:${given}/${token === undefined ? '' : `#token=${token}`}\n`,
    )
    process.stderr.write(
      `Dashboard of ${db}; it follows running experiments. Press Ctrl-C to stop.\n`,
    )
    if (!interrupt.signal.aborted)
      await new Promise((resolve) =>
        interrupt.signal.addEventListener('abort', resolve, { once: true }),
      )
    return exitCodes.ok
  } finally {
    interrupt.dispose()
    await close()
  }
}
