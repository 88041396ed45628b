import { useData } from "vitepress";
import DefaultTheme from "vitepress/theme";
import { defineComponent, h, onMounted, ref, useId, watch } from "vue";

/** A diagram, drawn in the browser. */
const Mermaid = defineComponent({
  props: { code: { type: String, required: true } },
  setup({ code }) {
    const { isDark } = useData();
    const id = useId();
    const svg = ref("");
    const draw = async (): Promise<void> => {
      const { default: mermaid } = await import("mermaid");
      // The site's styles for paragraphs would cut labels of HTML off.
      mermaid.initialize({
        theme: isDark.value ? "dark" : "default",
        htmlLabels: false,
        flowchart: { wrappingWidth: 300 },
      });
      ({ svg: svg.value } = await mermaid.render(id, decodeURIComponent(code)));
    };
    onMounted(() => watch(isDark, draw, { immediate: true }));
    return () => h("div", { class: "mermaid", innerHTML: svg.value });
  },
});

export default {
  extends: DefaultTheme,
  enhanceApp({ app }: { app: import("vue").App }): void {
    app.component("Mermaid", Mermaid);
  },
};
