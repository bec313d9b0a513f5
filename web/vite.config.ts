import { defineConfig } from "vite";

// One classic script and one style sheet: browsers block module scripts on file://.
export default defineConfig({
  build: {
    target: "es2022",
    outDir: "../src/gambrel/report/page/asset",
    emptyOutDir: true,
    cssCodeSplit: false,
    modulePreload: false,
    lib: { entry: "src/main.tsx", name: "gambrel", formats: ["iife"], fileName: () => "page.js", cssFileName: "page" },
  },
  define: { "process.env.NODE_ENV": '"production"' },
});
