/** Writes dist/tune.1, the manual page that the package installs. Run by `npm run build`. */
import { writeFileSync } from 'node:fs'
import { programVersion } from '../program-version.ts'
import { commandLine, exitStatus, loadCommands } from '../tune-program.ts'
import { manPage } from './man-page.ts'

const [version] = programVersion().split(' ') as [string]
writeFileSync(
  new URL('../../tune.1', import.meta.url),
  manPage(commandLine(await loadCommands()), { version, exitStatus }),
)
