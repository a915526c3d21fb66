import { prefersDark } from './app.ts'

/** Follows the system until it is pressed. */
export const ThemeButton = ({ changed = () => {} }: { changed?(): void }) => (
  <button
    class="quiet"
    type="button"
    aria-label="Switch between dark and light"
    onClick={() => {
      const { dataset } = document.documentElement
      const theme = dataset.theme ?? (prefersDark().matches ? 'dark' : 'light')
      dataset.theme = theme === 'dark' ? 'light' : 'dark'
      changed()
    }}
  >
    ◑
  </button>
)
